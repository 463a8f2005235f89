#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/engine/cuda/cuda_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::CudaRuntimeFixture;
using testing::FakeEntry;
using testing::IsOk;

constexpr std::uint64_t kHbmBytes = CudaRuntimeFixture::kHbmPages * kGpuPage;

/// Tensors on the GPU, what each must hold, and kernels that change them.
class MappedTensors {
 public:
  explicit MappedTensors(bool keeps) {
    gpu_.runtime().options.memory.keep_mappings = keeps;
    gpu_.runtime().Start();
    stream_ = gpu_->AdoptStream(gpu_.user_stream()).value();
  }

  void Make(std::uint64_t bytes) {
    const std::size_t i = tensors_.size();
    tensors_.push_back(gpu_.runtime().Make("t" + std::to_string(i), bytes));
    expected_.push_back(testing::Pattern(i, bytes));
    ASSERT_THAT(gpu_->Write(tensors_[i], expected_[i]), IsOk());
  }
  void Add(std::size_t i, std::uint8_t value) {
    ASSERT_THAT(gpu_.Add(tensors_[i], value, stream_), IsOk());
    Expect(i, value);
  }
  /// The tensor's bytes are to have come to so much more.
  void Expect(std::size_t i, std::uint8_t value) {
    for (std::byte& byte : expected_[i]) {
      byte = static_cast<std::byte>(static_cast<std::uint8_t>(byte) + value);
    }
  }
  void EndLeases() { stream_.Synchronize(); }
  void Check(std::size_t i) {
    EXPECT_EQ(gpu_.Bytes(tensors_[i]).value(), expected_[i]) << "tensor " << i;
  }
  void CheckAll() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) Check(i);
  }

  std::size_t size() const { return tensors_.size(); }
  TensorId id(std::size_t i) const { return tensors_[i]; }
  StreamRef& stream() { return stream_; }
  MappingStats mappings() { return gpu_->GetStats().tiers.at("hbm").mappings; }
  std::uint64_t calls(FakeEntry entry) { return gpu_.fake().calls(entry); }
  CudaRuntimeFixture& gpu() { return gpu_; }

 private:
  CudaRuntimeFixture gpu_;
  StreamRef stream_;
  std::vector<TensorId> tensors_;
  std::vector<std::vector<std::byte>> expected_;
};

class CudaMappingTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Mappings, CudaMappingTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "Stay" : "Go";
});

TEST_P(CudaMappingTest, BytesAreRightThroughManyEvictionsAndBudgets) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  MappedTensors tensors(GetParam());
  for (int i = 0; i < 12; ++i) tensors.Make(kGpuPage * (1 + random() % 3) - random() % 1000);
  for (int step = 0; step < 200; ++step) {
    tensors.Add(random() % tensors.size(), static_cast<std::uint8_t>(1 + random() % 200));
    if (step % 9 == 0) tensors.Check(random() % tensors.size());
    if (step % 50 != 49) continue;
    const std::uint64_t pages = 4 + random() % 5;  // frames go back under their addresses
    tensors.EndLeases();
    ASSERT_THAT(tensors.gpu()->SetBudget(kHbm0, Bytes(pages * kGpuPage)), IsOk());
  }
  tensors.CheckAll();
  EXPECT_EQ(tensors.mappings().in_place > 0, GetParam());
}

TEST(CudaMappingsStayTest, TwoAddressesOfEachFrameShowTheirOwnTensorsUnderTheirLeases) {
  MappedTensors tensors(/*keeps=*/true);
  for (int i = 0; i < 2; ++i) tensors.Make(kHbmBytes);
  for (std::uint8_t value = 1; value < 3; ++value) {
    for (const std::size_t i : {0, 1}) tensors.Add(i, value);
  }
  const std::uint64_t mapped = tensors.calls(FakeEntry::kMapMemory);
  const std::uint64_t unmapped = tensors.calls(FakeEntry::kUnmapMemory);
  const MappingStats before = tensors.mappings();
  for (std::uint8_t value = 3; value < 9; ++value) {
    for (const std::size_t i : {0, 1}) {
      tensors.Add(i, value);
      tensors.Check(1 - i);
    }
  }
  tensors.CheckAll();
  const MappingStats after = tensors.mappings();
  const std::uint64_t moved = (after.again - before.again) - (after.in_place - before.in_place);
  EXPECT_EQ(tensors.calls(FakeEntry::kMapMemory) - mapped, moved)
      << "who finds the frame again needs no call";
  EXPECT_EQ(tensors.calls(FakeEntry::kUnmapMemory) - unmapped, moved)
      << "an eviction unmaps nothing";
  EXPECT_GT(after.in_place, before.in_place);
}

TEST_P(CudaMappingTest, ACapturedGraphReachesItsTensorAfterEvictions) {
  MappedTensors tensors(GetParam());
  for (int i = 0; i < 3; ++i) tensors.Make(kHbmBytes / 2);
  CudaRuntimeFixture& gpu = tensors.gpu();
  testing::CudaGraph graph = nullptr;
  const auto under_lease = [&](const std::function<void(std::span<std::byte>)>& work) {
    auto lease = gpu.runtime().Acquire(
        {.tensor = tensors.id(0), .mode = AccessMode::kReadWrite, .tier = kHbm0});
    ASSERT_THAT(lease, IsOk());
    work(lease->Contiguous());
    ASSERT_THAT(tensors.stream().ReleaseAfter(*std::move(lease)), IsOk());
  };
  under_lease([&](std::span<std::byte> bytes) {
    ASSERT_EQ(gpu.fake().BeginCapture(gpu.user_stream(), /*global=*/false), device::kCudaSuccess);
    ASSERT_EQ(gpu.fake().LaunchAdd(bytes, 3, gpu.user_stream()), device::kCudaSuccess);
    ASSERT_EQ(gpu.fake().EndCapture(gpu.user_stream(), &graph), device::kCudaSuccess);
  });
  for (int replay = 0; replay < 4; ++replay) {
    under_lease([&](std::span<std::byte>) {
      ASSERT_EQ(gpu.fake().LaunchGraph(graph, gpu.user_stream()), device::kCudaSuccess);
    });
    tensors.Expect(0, 3);
    for (const std::size_t other : {1, 2}) tensors.Add(other, 1);  // all of hbm
  }
  tensors.CheckAll();
  tensors.EndLeases();
  ASSERT_EQ(gpu.fake().DestroyGraph(graph), device::kCudaSuccess);
}

TEST(CudaMappingsGoTest, AnEvictionUnmapsThePage) {
  MappedTensors tensors(/*keeps=*/false);
  for (int i = 0; i < 2; ++i) tensors.Make(kHbmBytes);
  tensors.Add(0, 1);
  const std::uint64_t before = tensors.calls(FakeEntry::kUnmapMemory);
  tensors.Add(1, 1);
  tensors.CheckAll();
  EXPECT_GE(tensors.calls(FakeEntry::kUnmapMemory) - before, CudaRuntimeFixture::kHbmPages);
  EXPECT_EQ(tensors.mappings().again, 0u);
}

}  // namespace
}  // namespace sluice
