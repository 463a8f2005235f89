#include "workloads/gpt/model/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/workloads/gpt/gpt_fixture.h"

namespace sluice::gpt {
namespace {

using testing::HasSubstr;

/// Bytes that tell where they are, as long as there are fewer than 251 * 256 of them.
std::string Positions(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += static_cast<char>(i % 251);
  return text;
}

absl::StatusOr<Dataset> FromBytes(std::string text) {
  ModelConfig model = TinyModel();
  model.vocab = 256;
  return Dataset::FromBytes(std::move(text), TinyTrain(), model);
}

TEST(Dataset, TextThatIsTooShortNamesTheBytesNeeded) {
  // Two windows of context + 1 = 10 bytes.
  const absl::Status status = FromBytes(Positions(19)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("19 bytes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("at least 20"));
  EXPECT_TRUE(FromBytes(Positions(20)).ok());
  EXPECT_EQ(FromBytes("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Dataset, TargetsFollowInputsAndPartsAreApart) {
  const absl::StatusOr<Dataset> data = FromBytes(Positions(250));
  ASSERT_TRUE(data.ok()) << data.status();
  for (int step = 0; step < 50; ++step) {
    const Batch batch = data->TrainBatch(step);
    ASSERT_EQ(batch.inputs.size(), 4u * 9u);
    for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
      EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
      EXPECT_LT(batch.targets[i], 225);  // validation is the last tenth
    }
  }
  for (int index = 0; index < 10; ++index) {
    for (const std::uint8_t id : data->ValidationBatch(index).inputs) EXPECT_GE(id, 225);
  }
}

TEST(Dataset, EveryWindowCanBeDrawn) {
  const absl::StatusOr<Dataset> data = FromBytes(Positions(40));  // starts 0..20 in training
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<bool> seen(21);
  for (int step = 0; step < 200; ++step) {
    const Batch batch = data->TrainBatch(step);
    for (std::size_t i = 0; i < batch.inputs.size(); i += 9) seen.at(batch.inputs[i]) = true;
  }
  EXPECT_EQ(seen, std::vector<bool>(21, true));
}

TEST(Dataset, DependsOnSeedAndStepOnly) {
  TrainConfig other = TinyTrain();
  other.seed = 6;
  const Dataset a = TinyDataset(), b = TinyDataset(), c = TinyDataset(other);
  EXPECT_EQ(a.TrainBatch(3).inputs, b.TrainBatch(3).inputs);
  EXPECT_NE(a.TrainBatch(3).inputs, a.TrainBatch(4).inputs);
  EXPECT_NE(a.TrainBatch(3).inputs, c.TrainBatch(3).inputs);
  EXPECT_EQ(a.ValidationBatch(1).inputs, b.ValidationBatch(1).inputs);
}

}  // namespace
}  // namespace sluice::gpt
