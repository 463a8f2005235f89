#include "tests/workloads/gpt/gpt_fixture.h"

#include <gtest/gtest.h>

#include <cstring>

namespace sluice::gpt {

ModelConfig TinyModel() {
  return {.layers = 2, .heads = 2, .width = 20, .context = 9, .vocab = 64};
}

TrainConfig TinyTrain() {
  return {.batch = 4,
          .learning_rate = 1e-2,
          .warmup_steps = 3,
          .group_sequences = 2,
          .seed = 5,
          .val_batches = 2};
}

std::string TinyText() {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "the page " + std::to_string(i % 7) + " moves from dram to nvme and back. ";
  }
  return text;
}

Dataset TinyDataset(const TrainConfig& train) {
  absl::StatusOr<Dataset> data = Dataset::FromBytes(TinyText(), train, TinyModel());
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

StateBytes StateBytesOf(Trainer& trainer) {
  StateBytes state;
  const absl::Status status = trainer.ForEachState(
      [&](const std::string& name, std::uint64_t offset, std::span<const std::byte> bytes) {
        std::string& content = state[name];
        EXPECT_EQ(offset, content.size()) << name;
        content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return state;
}

State StateOf(Trainer& trainer) {
  State state;
  for (const auto& [name, bytes] : StateBytesOf(trainer)) {
    std::vector<float>& values = state[name];
    values.resize(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return state;
}

absl::StatusOr<std::vector<TensorId>> GradientTap::CreateTensors(
    std::span<const TensorSpec> specs) {
  absl::StatusOr<std::vector<TensorId>> ids = memory_.CreateTensors(specs);
  if (!ids.ok()) return ids;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].kind != TensorKind::kGradient) continue;
    tensors_.emplace_back(specs[i].name.substr(0, specs[i].name.rfind('.')), (*ids)[i]);
  }
  return ids;
}

absl::Status GradientTap::BeginIteration(std::string_view key) {
  copied_ = false;
  return memory_.BeginIteration(key);
}

absl::Status GradientTap::Run(OpSpec op) {
  if (!copied_ && op.name.starts_with("update.")) {
    if (absl::Status status = CopyGradients(); !status.ok()) return status;
    copied_ = true;
  }
  return memory_.Run(std::move(op));
}

absl::Status GradientTap::CopyGradients() {
  OpSpec op{.name = "tap"};
  for (const auto& [name, id] : tensors_) op.accesses.push_back({.tensor = id, .tier = kDram0});
  op.compute = [this](const OpBuffers& b) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const float* values = b.Floats(i);
      const std::size_t count = b.Contiguous(i).size() / sizeof(float);
      gradients_[tensors_[i].first].assign(values, values + count);
    }
  };
  return memory_.Run(std::move(op));
}

}  // namespace sluice::gpt
