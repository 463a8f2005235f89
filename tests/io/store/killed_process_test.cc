// A process that SIGKILL ends: what it had of an ordinary file system, which takes no root.
#include <fcntl.h>

#include <chrono>
#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "io/file/file_descriptor.h"
#include "io/store/page_store.h"
#include "tests/support/child_process.h"
#include "tests/support/small_file_system.h"
#include "tests/support/store/every_slot.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::FreeBytes;

constexpr std::uint64_t kKilledPage = std::uint64_t{1} << 20;
constexpr SlotIndex kKilledSlots = 256;
constexpr std::uint64_t kReserved = kKilledSlots * kKilledPage;  // 256 MiB
/// Part of the reservation that must go and come back. Other programs may take or free the rest.
constexpr std::uint64_t kMost = kReserved / 4 * 3;
/// Rounds, since other programs use the file system as well. They may spoil one round, but not all.
constexpr int kRoundsMax = 5;
constexpr auto kPatience = std::chrono::seconds(60);

PageStoreOptions KilledOptions(const std::string& path, SlotIndex slots) {
  return {.directory = path, .page_bytes = kKilledPage, .slots = slots, .files = 2};
}

/// Reason why the test would show nothing in `path`; empty if it works.
std::string Unsuitable(const std::string& path) {
  const FileDescriptor nameless(open(path.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!nameless.valid()) return "its file system has no O_TMPFILE";
  return FreeBytes(path) < 2 * kReserved ? "less than 512 MiB are free" : "";
}

/// Error about the space of one killed process; empty if its space was taken and came back. Waits
/// until then, for the next round.
std::string KillOnce(const std::string& path) {
  const std::uint64_t before = FreeBytes(path);
  std::uint64_t meanwhile = 0;
  const auto look = [&] {
    meanwhile = FreeBytes(path);
    return std::string();
  };
  const auto work = [&](const std::function<void()>& begun) {
    testing::UseAStoreForEver(KilledOptions(path, kKilledSlots), begun);
  };
  if (std::string wrong = testing::KillAtWork(work, look); !wrong.empty()) return wrong;
  if (!testing::BecomesFree(path, meanwhile + kMost, kPatience)) {
    return "most of what the store reserved is not given back";
  }
  if (meanwhile + kMost <= before) return "";
  return "most of what the store reserved is not missing while it is used";
}

TEST(KilledProcessTest, LeavesNoFileAndGivesItsSpaceBack) {
  const testing::TempDirectory temp;
  if (const std::string why = Unsuitable(temp.path()); !why.empty()) {
    GTEST_SKIP() << temp.path() << ": " << why;
  }
  std::string wrong = "no round";
  for (int round = 0; round < kRoundsMax && !wrong.empty(); ++round) {
    wrong = KillOnce(temp.path());
    ASSERT_EQ(temp.entries(), 0);
  }
  EXPECT_EQ(wrong, "");
  EXPECT_EQ(testing::UseANewStore(KilledOptions(temp.path(), 16)), "");
  EXPECT_EQ(temp.entries(), 0);
}

}  // namespace
}  // namespace sluice::io
