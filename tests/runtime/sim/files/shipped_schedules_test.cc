#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/sim/facts/schedule_facts.h"
#include "tests/runtime/sim/files/read_text.h"
#include "tests/support/project_paths.h"
#include "tests/support/status_matchers.h"

namespace sluice::sim {
namespace {

using ::sluice::testing::IsOk;
using ::testing::UnorderedElementsAre;

std::string ReadShipped(const std::string& name) {
  std::ifstream file(testing::ProjectFile("workloads/schedules/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ShippedSchedulesTest, AreSmallAndWhole) {
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::ProjectFile("workloads/schedules"))) {
    const std::string name = entry.path().filename().string();
    names.insert(name);
    EXPECT_LT(entry.file_size(), 100u << 10) << name;
    const absl::StatusOr<FileSchedule> schedule = ReadText(ReadShipped(name));
    ASSERT_THAT(schedule, IsOk());
    const absl::StatusOr<ScheduleFacts> facts = FindFacts(*schedule, {});
    ASSERT_THAT(facts, IsOk());
    EXPECT_EQ(facts->untouched, 0u) << name;
    EXPECT_EQ(facts->unwritten, 0u) << name;
    EXPECT_GT(facts->groups.all.seconds, 0) << name;
  }
  EXPECT_THAT(names,
              UnorderedElementsAre("layer-streaming-inference.jsonl",
                                   "transformer-training.jsonl",
                                   "zero-offload-adam.jsonl"));
}

TEST(ShippedSchedulesTest, OffloadedAdamWorksInDramBesideTheGpu) {
  const absl::StatusOr<FileSchedule> schedule = ReadText(ReadShipped("zero-offload-adam.jsonl"));
  ASSERT_THAT(schedule, IsOk());
  int updates = 0;
  for (const FileOp& op : schedule->ops) {
    EXPECT_EQ(op.lane == "cpu", op.tier == kDram0) << op.name;
    if (op.lane != "cpu") continue;
    ++updates;
    ASSERT_TRUE(op.after.has_value());
    EXPECT_EQ(schedule->ops[op.after->front()].lane, "gpu");
  }
  EXPECT_EQ(updates, 96);
}

TEST(ShippedSchedulesTest, InferenceHasAPromptAndATokenAndReadsItsWeightsFromAFile) {
  const std::string text = ReadShipped("layer-streaming-inference.jsonl");
  for (const char* key : {"prefill", "decode"}) {
    const absl::StatusOr<FileSchedule> schedule = ReadText(text, {.key = key});
    ASSERT_THAT(schedule, IsOk());
    for (const FileTensor& tensor : schedule->tensors) {
      EXPECT_EQ(tensor.home == TensorHome::kFile, tensor.kind == TensorKind::kParameter);
    }
  }
}

}  // namespace
}  // namespace sluice::sim
