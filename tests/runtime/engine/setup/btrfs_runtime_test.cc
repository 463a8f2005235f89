// A Runtime on a file system that copies on write: a small btrfs on a loop device, which takes
// root.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <functional>
#include <string>

#include "fmt/format.h"
#include "runtime/engine/api/runtime_state.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temp_directory.h"

namespace sluice {
namespace {

using testing::RuntimeFixture;

constexpr std::uint64_t kBtrfsBytes = std::uint64_t{256} << 20;

/// Messages to the listener of a Runtime on btrfs, or the error of its Create.
std::string Told(const std::string& directory, Use nocow) {
  RuntimeFixture runtime;
  runtime.options.io.directory = directory;
  runtime.options.io.keep_free = Bytes();
  runtime.options.io.nocow = nocow;
  runtime.options.listener = &runtime.listener;
  const auto made = internal::RuntimeAccess::Create(runtime.options, {});
  if (!made.ok()) return made.status().ToString();
  const Stats stats = (*made)->GetStats();
  std::string text = stats.io.nocow ? "in place;" : "copied;";
  for (const FallbackEvent& event : runtime.listener.fallbacks()) {
    if (event.what == "nocow") text += fmt::format(" {}", event.reason);
  }
  return text;
}

/// Runs `body` in a child with a small btrfs at `path`. "skip: ..." when there can be none.
std::string OnSmallBtrfs(const std::function<std::string(const std::string& path)>& body) {
  const testing::TempDirectory temp;
  return testing::RunInChild([&] {
    const std::string why = testing::MountSmallBtrfs(temp.path(), kBtrfsBytes);
    return why.empty() ? body(temp.path()) : "skip: " + why;
  });
}

TEST(SlowBtrfsRuntimeTest, FilesOnBtrfsAreOverwrittenInPlace) {
  const std::string text =
      OnSmallBtrfs([](const std::string& path) { return Told(path, Use::kRequire); });
  if (text.starts_with("skip")) GTEST_SKIP() << "needs root and btrfs: " << text.substr(6);
  EXPECT_EQ(text, "in place;");
}

std::string ToldWithoutTheFlag(Use nocow) {
  return OnSmallBtrfs([=](const std::string& path) {
    const std::string failed =
        testing::RefuseSystemCall(SYS_ioctl, EPERM, testing::Refuse::kEveryCall);
    return failed.empty() ? Told(path, nocow) : failed;
  });
}

TEST(SlowBtrfsRuntimeTest, FilesThatAreCopiedAreToldAndCanBeForbidden) {
  const std::string text = ToldWithoutTheFlag(Use::kAuto);
  if (text.starts_with("skip")) GTEST_SKIP() << "needs root and btrfs: " << text.substr(6);
  EXPECT_EQ(text, "copied; btrfs copies pages on write, FS_IOC_GETFLAGS: EPERM");
  const std::string refused = ToldWithoutTheFlag(Use::kRequire);
  EXPECT_TRUE(refused.starts_with("FAILED_PRECONDITION")) << refused;
  EXPECT_NE(refused.find("writing in place is required but refused"), std::string::npos) << refused;
}

}  // namespace
}  // namespace sluice
