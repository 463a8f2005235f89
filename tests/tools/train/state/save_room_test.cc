#include "tools/train/state/save_room.h"

#include <algorithm>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::tools {
namespace {

using sluice::testing::IsOk;

constexpr std::uint64_t kRoomMiB = 1 << 20;

SaveRoom Room(std::uint64_t present, std::uint64_t free) {
  return {.flag = "--state",
          .directory = "/saves",
          .save_bytes = 10 * kRoomMiB,
          .kept = 2,
          .present_bytes = present,
          .free_bytes = free};
}

TEST(SaveRoomTest, ThreeSavesMustFitWhereTwoAreKept) {
  EXPECT_THAT(CheckRoom(Room(0, 30 * kRoomMiB)), IsOk());
  EXPECT_FALSE(CheckRoom(Room(0, 30 * kRoomMiB - 1)).ok());
  const absl::Status refusal = CheckRoom(Room(0, 20 * kRoomMiB));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(refusal.message()),
            "--state /saves: saves take 30 MiB there, 10 MiB for each of 2 kept and 1 being "
            "written, of which 0 B are there; 20 MiB are free, beside the spill files; make "
            "room, or name a directory on another file system");
}

TEST(SaveRoomTest, SavesOnTheWayOverlap) {
  SaveRoom room = Room(0, 40 * kRoomMiB);
  room.being_written = 2;
  EXPECT_THAT(CheckRoom(room), IsOk());
  room.free_bytes -= 1;
  EXPECT_FALSE(CheckRoom(room).ok());
}

TEST(SaveRoomTest, SavesThatAreThereNeedNoRoomAgain) {
  EXPECT_THAT(CheckRoom(Room(20 * kRoomMiB, 10 * kRoomMiB)), IsOk());
  EXPECT_FALSE(CheckRoom(Room(20 * kRoomMiB, 10 * kRoomMiB - 1)).ok());
  EXPECT_THAT(CheckRoom(Room(50 * kRoomMiB, 0)), IsOk());
}

/// All three saves stay until there is another.
TEST(SaveRoomTest, ThreeSavesOfAKilledRunNeedRoomBesideThem) {
  const TemporaryDirectory files;
  for (const int step : {10, 20, 30, 40}) {
    std::filesystem::create_directory(files / SaveName(step));
    files.Write(SaveName(step) + "/optimizer.sluice", "a save");
  }
  const TrainFlags flags{.state_path = files.path()};
  ResumableSaves resumable;
  for (const int step : {10, 20, 30}) {
    resumable.candidates = {{.save = {files / SaveName(step), step}, .run = {.step = step}}};
    const auto room = RoomOf(flags, resumable, {});
    ASSERT_THAT(room, IsOk());
    EXPECT_EQ(room->kept, std::max(2, step / 10)) << "from step " << step;
  }
}

TEST(SaveRoomTest, ASaveHasParametersStatesAndScales) {
  const std::vector<TensorSpec> parameters = {{.name = "w", .shape = {1000, 1000}}};
  constexpr std::uint64_t kElements = 1'000'000;
  const auto more_than = [&](StateType type, std::uint64_t bytes) {
    const std::uint64_t most = SaveBytesMax(parameters, type);
    return most >= bytes && most <= bytes + 16 * 1024;
  };
  EXPECT_TRUE(more_than(StateType::kFp32, 12 * kElements));
  EXPECT_TRUE(more_than(StateType::kBf16, 8 * kElements));
  EXPECT_TRUE(more_than(StateType::k8Bit, 6 * kElements + 2 * 4 * 3907));
}

}  // namespace
}  // namespace sluice::tools
