#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/engine/cuda/cuda_fixture.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::CudaRuntimeFixture;
using testing::IsOk;

constexpr int kSteps = testing::kCaseStride > 1 ? 40 : 100;

/// Tensors that several threads add to, on streams and in dram, and the sum that each has to hold.
class SharedTensors {
 public:
  static constexpr std::size_t kTensors = 9;

  explicit SharedTensors(bool keeps) : gpu_(SlowLink()) {
    gpu_.runtime().options.memory.keep_mappings = keeps;
    gpu_.runtime().Start();
    for (std::size_t i = 0; i < kTensors; ++i) {
      tensors_[i] = gpu_.runtime().Make("t" + std::to_string(i), (1 + i % 3) * kGpuPage - 8 * i);
    }
  }

  CudaRuntimeFixture& gpu() { return gpu_; }
  TensorId id(std::size_t i) const { return tensors_[i]; }
  void Expect(std::size_t i, std::uint8_t value) { sums_[i] += value; }
  void Check() {
    for (std::size_t i = 0; i < kTensors; ++i) {
      EXPECT_THAT(gpu_.Bytes(tensors_[i]).value(),
                  ::testing::Each(static_cast<std::byte>(sums_[i].load())))
          << "tensor " << i;
    }
  }

 private:
  /// A link that is slower than the kernels, so that many leases come before their pages.
  static testing::FakeCudaOptions SlowLink() {
    testing::FakeCudaOptions options = CudaRuntimeFixture::SmallPages();
    options.link_time = std::chrono::milliseconds(2);
    return options;
  }

  CudaRuntimeFixture gpu_;
  std::array<TensorId, kTensors> tensors_;
  std::array<std::atomic<std::uint8_t>, kTensors> sums_{};
};

/// A user's thread with a stream of its own.
class User {
 public:
  User(SharedTensors& tensors, std::uint64_t seed, bool of_thread)
      : tensors_(tensors), api_(tensors.gpu().fake().api()), random_(seed) {
    EXPECT_EQ(api_.RetainContext(0, &context_), device::kCudaSuccess);
    EXPECT_EQ(api_.PushContext(context_), device::kCudaSuccess);
    stream_ = device::CudaPerThreadStream();
    if (!of_thread) api_.CreateStream(&stream_);
    of_thread_ = of_thread;
    ref_ = tensors_.gpu()->AdoptStream(stream_).value();
    lane_ = "lane" + std::to_string(seed);
  }
  ~User() {
    ref_.Synchronize();
    if (!of_thread_) api_.DestroyStream(stream_);
    api_.PopContext();
    api_.ReleaseContext(0);
  }
  User(const User&) = delete;
  User& operator=(const User&) = delete;

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) Step();
  }

 private:
  void Step() {
    const std::size_t i = random_() % SharedTensors::kTensors;
    const auto value = static_cast<std::uint8_t>(1 + random_() % 200);
    switch (random_() % 8) {
      case 0:
        return AddInDram(i, value);
      case 1:
        return Drop(i);
      case 2:
        return Hint(i);
      default:
        return AddOnStream(i, value, random_() % 3 > 0);
    }
  }

  void AddOnStream(std::size_t i, std::uint8_t value, bool behind) {
    Op op = tensors_.gpu()->BeginOp({.name = "add", .lane = lane_});
    Ticket ticket =
        op.AcquireAll({{.tensor = tensors_.id(i), .mode = AccessMode::kReadWrite, .tier = kHbm0}});
    if (behind) {
      ASSERT_THAT(ref_.WaitOn(ticket), IsOk());
    }
    auto leases = ticket.Take();
    ASSERT_THAT(leases, IsOk());
    ASSERT_EQ(tensors_.gpu().fake().LaunchAdd(leases->front().Contiguous(), value, stream_),
              device::kCudaSuccess);
    tensors_.Expect(i, value);
    ASSERT_THAT(ref_.ReleaseAfter(std::move(leases->front())), IsOk());
    ASSERT_THAT(op.EndAfter(ref_), IsOk());
  }

  void AddInDram(std::size_t i, std::uint8_t value) {
    Op op = tensors_.gpu()->BeginOp({.name = "host", .lane = lane_});
    auto lease =
        op.Acquire({.tensor = tensors_.id(i), .mode = AccessMode::kReadWrite, .tier = kDram0});
    ASSERT_THAT(lease, IsOk());
    for (std::byte& byte : lease->Contiguous()) {
      byte = static_cast<std::byte>(std::to_integer<unsigned>(byte) + value);
    }
    tensors_.Expect(i, value);
  }

  /// Waits for pages, and uses none.
  void Drop(std::size_t i) {
    Op op = tensors_.gpu()->BeginOp({.name = "drop", .lane = lane_});
    const auto mode = random_() % 2 == 0 ? AccessMode::kRead : AccessMode::kReadWrite;
    Ticket ticket = op.AcquireAll({{.tensor = tensors_.id(i), .mode = mode, .tier = kHbm0}});
    if (random_() % 3 > 0) {
      ASSERT_THAT(ref_.WaitOn(ticket), IsOk());
    }
    if (random_() % 2 == 0) {
      EXPECT_THAT(ticket.Take(), IsOk());
    }
  }

  void Hint(std::size_t i) {
    const Access access{.tensor = tensors_.id(i), .tier = kHbm0};
    EXPECT_THAT(tensors_.gpu()->Prefetch({&access, 1}), IsOk());
  }

  SharedTensors& tensors_;
  device::CudaApi& api_;
  std::mt19937_64 random_;
  device::CudaContext context_ = nullptr;
  device::CudaStream stream_ = nullptr;
  bool of_thread_ = false;
  StreamRef ref_;
  std::string lane_;
};

/// Budgets, iterations, tensors and reservations that come and go meanwhile.
void Disturb(SharedTensors& tensors, std::uint64_t seed, const std::atomic<bool>& stop) {
  std::mt19937_64 random(seed);
  Runtime& runtime = *tensors.gpu().operator->();
  for (int i = 0; !stop.load(); ++i) {
    runtime.SetBudget(kHbm0, Bytes((6 + random() % 3) * kGpuPage)).IgnoreError();
    runtime.SetBudget(kDram0, Bytes((12 + random() % 5) * kGpuPage)).IgnoreError();
    if (i % 3 == 0) runtime.BeginIteration("i").IgnoreError();
    if (i % 3 == 2) runtime.EndIteration().IgnoreError();
    const TensorId mine = tensors.gpu().runtime().Make("d" + std::to_string(i), kGpuPage);
    { runtime.Reserve(kHbm0, Bytes(kGpuPage)).status().IgnoreError(); }
    EXPECT_THAT(tensors.gpu().Bytes(mine).value(), ::testing::Each(std::byte{0}));
    EXPECT_THAT(runtime.Free(mine), IsOk());
    std::this_thread::yield();
  }
}

class CudaRandomTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Mappings, CudaRandomTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "Stay" : "Go";
});

TEST_P(CudaRandomTest, BytesAreRightThatThreadsAddToOnStreamsOfTheirOwn) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  SharedTensors tensors(GetParam());
  std::atomic<bool> stop = false;
  std::thread disturber([&] { Disturb(tensors, seed, stop); });
  std::vector<std::thread> users;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    users.emplace_back([&tensors, seed, i] { User(tensors, seed + i, i > 2).Run(kSteps); });
  }
  for (std::thread& user : users) user.join();
  stop = true;
  disturber.join();
  tensors.Check();
}

}  // namespace
}  // namespace sluice
