#include "workloads/gpt/memory/ram_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace sluice::gpt {
namespace {

TEST(RamMemory, TensorsAreZeroAlignedAndApart) {
  RamMemory memory;
  std::vector<TensorSpec> specs;
  for (const std::int64_t count : {1, 1000, 20'000'000, 3, 5'000'000}) {
    specs.push_back({.name = "t" + std::to_string(count), .shape = {count}});
  }
  const absl::StatusOr<std::vector<TensorId>> ids = memory.CreateTensors(specs);
  ASSERT_TRUE(ids.ok()) << ids.status();
  OpSpec op{.name = "fill"};
  for (const TensorId id : *ids) op.accesses.push_back({.tensor = id});
  op.compute = [&](const OpBuffers& b) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::size_t count = b.Contiguous(i).size() / sizeof(float);
      EXPECT_EQ(count, static_cast<std::size_t>(specs[i].shape[0]));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.Floats(i)) % 64, 0u);
      EXPECT_EQ(b.Floats(i)[count - 1], 0.0f);
      std::fill_n(b.Floats(i), count, static_cast<float>(i + 1));
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::size_t count = b.Contiguous(i).size() / sizeof(float);
      EXPECT_EQ(std::count(b.Floats(i), b.Floats(i) + count, static_cast<float>(i + 1)),
                std::ptrdiff_t(count));
    }
  };
  EXPECT_TRUE(memory.Run(std::move(op)).ok());
}

TEST(RamMemory, RangesArePartsAndAreChecked) {
  RamMemory memory;
  const TensorSpec spec{.name = "t", .shape = {100}};
  const absl::StatusOr<std::vector<TensorId>> ids = memory.CreateTensors({&spec, 1});
  ASSERT_TRUE(ids.ok()) << ids.status();
  const auto run = [&](TensorId id, ByteRange range) {
    OpSpec op{.name = "op", .accesses = {{.tensor = id, .range = range}}};
    op.compute = [&](const OpBuffers& b) {
      EXPECT_EQ(b.Contiguous(0).size(), range.bytes);
      EXPECT_EQ(b.Spans(0).size(), 1u);
    };
    return memory.Run(std::move(op)).code();
  };
  EXPECT_EQ(run(ids->front(), {40, 360}), absl::StatusCode::kOk);
  EXPECT_EQ(run(ids->front(), {40, 361}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(run(ids->front(), {401, 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(run(TensorId{2}, {0, 4}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(run(TensorId{}, {0, 4}), absl::StatusCode::kInvalidArgument);
}

TEST(RamMemory, ObserverSeesEveryOpWithItsTimes) {
  RamMemory memory;
  std::vector<OpTiming> seen;
  memory.SetObserver([&](const OpTiming& timing) { seen.push_back(timing); });
  EXPECT_TRUE(memory.Run({.name = "a", .compute = [](const OpBuffers&) {}}).ok());
  EXPECT_TRUE(memory.Run({.name = "b", .compute = [](const OpBuffers&) {}}).ok());
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].name, "a");
  EXPECT_EQ(seen[1].name, "b");
  EXPECT_LE(seen[0].begin, seen[0].end);
  EXPECT_LE(seen[0].end, seen[1].begin);
}

}  // namespace
}  // namespace sluice::gpt
