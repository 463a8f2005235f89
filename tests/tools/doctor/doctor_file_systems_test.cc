// Report of doctor on file systems that lack something: small ones on loop devices, bindfs (root).
#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/child_process.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temp_directory.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kSmallBytes = std::uint64_t{64} << 20;

/// The answers of doctor about the file system that `mount` makes. "skip: ..." when there is none.
std::string AnswersOn(const std::function<std::string(const std::string& path)>& mount) {
  const testing::TempDirectory temp;
  return testing::RunInChild([&]() -> std::string {
    const std::string why = mount(temp.path());
    if (!why.empty()) return "skip: " + why;
    Facts facts;
    facts.spill = ReadSpill(temp.path());
    const auto spill = nlohmann::json::parse(DescribeSpill(facts.spill).ToJson());
    const auto choices = nlohmann::json::parse(DescribeChoices(facts).ToJson());
    return spill.value("file_system", "?") + ", " + choices["spill_space"].value("chosen", "?");
  });
}

TEST(SlowFileSystemDoctorTest, Ext3AndExt4AreToldApart) {
  // ext2 and ext3 are one driver with ext4, and have its magic number.
  const std::string ext3 =
      AnswersOn([](const std::string& path) { return testing::MountSmallExt3(path, kSmallBytes); });
  if (ext3.starts_with("skip")) GTEST_SKIP() << "needs root and loop devices: " << ext3.substr(6);
  EXPECT_EQ(ext3, "ext3, written in full first");
  EXPECT_EQ(
      AnswersOn([](const std::string& path) { return testing::MountSmallExt4(path, kSmallBytes); }),
      "ext4, reserved");
  EXPECT_EQ(
      AnswersOn([](const std::string& path) { return testing::MountSmallExt2(path, kSmallBytes); }),
      "ext2, written in full first");
}

TEST(SlowFileSystemDoctorTest, AFileSystemOfFuseIsNamed) {
  const testing::TempDirectory source;
  const std::string text =
      AnswersOn([&](const std::string& path) { return testing::MountBindfs(source.path(), path); });
  if (text.starts_with("skip")) GTEST_SKIP() << "needs root and bindfs: " << text.substr(6);
  EXPECT_EQ(text, "fuse, written in full first");
}

}  // namespace
}  // namespace sluice::tools
