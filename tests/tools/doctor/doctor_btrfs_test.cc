// Report of doctor on a file system that copies on write: a small btrfs on a loop device (root).
#include <sys/syscall.h>

#include <cerrno>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/child_process.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temp_directory.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kBtrfsBytes = std::uint64_t{256} << 20;

/// The answers of doctor about a btrfs, with FS_NOCOW_FL or without. "skip: ..." when there is
/// none.
std::string AnswersOnBtrfs(bool with_flag) {
  const testing::TempDirectory temp;
  return testing::RunInChild([&]() -> std::string {
    const std::string why = testing::MountSmallBtrfs(temp.path(), kBtrfsBytes);
    if (!why.empty()) return "skip: " + why;
    const std::string failed =
        with_flag ? "" : testing::RefuseSystemCall(SYS_ioctl, EPERM, testing::Refuse::kEveryCall);
    if (!failed.empty()) return failed;
    Facts facts;
    facts.spill = ReadSpill(temp.path());
    const auto spill = nlohmann::json::parse(DescribeSpill(facts.spill).ToJson());
    const auto choices = nlohmann::json::parse(DescribeChoices(facts).ToJson());
    return "on " + spill.value("file_system", "?") + " nocow " + spill["nocow"].dump() +
           " overwrites " + choices["overwrites"].value("chosen", "?") +
           (choices["fallbacks"].dump().find("io.nocow") == std::string::npos
                ? ""
                : " forbidden by io.nocow = \"require\"");
  });
}

TEST(SlowBtrfsDoctorTest, SaysWhetherPagesAreCopied) {
  const std::string text = AnswersOnBtrfs(/*with_flag=*/true);
  if (text.starts_with("skip")) GTEST_SKIP() << "needs root and btrfs: " << text.substr(6);
  EXPECT_EQ(text, "on btrfs nocow true overwrites in place");
  EXPECT_EQ(AnswersOnBtrfs(/*with_flag=*/false),
            "on btrfs nocow false overwrites copied forbidden by io.nocow = \"require\"");
}

}  // namespace
}  // namespace sluice::tools
