#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/engine/api/runtime_state.h"
#include "tests/runtime/engine/cuda/cuda_fixture.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::CudaRuntimeFixture;
using ::testing::HasSubstr;

/// Runs at once.
constexpr std::uint64_t kRuns = 6;

struct Fault {
  device::CudaCode code = device::kCudaSuccess;
  bool sticky = false;
};

/// A small run of a Runtime, in which one call of the driver fails.
class FaultyRun {
 public:
  FaultyRun(Fault fault, std::uint64_t nth) : fault_(fault), nth_(nth), fake_(Options()) {
    runtime_.options.device = DeviceKind::kCuda;
    runtime_.options.page_bytes = Bytes(kGpuPage);
    runtime_.options.hbm_bytes = Bytes(2 * kGpuPage);
    runtime_.options.dram_bytes = Bytes(10 * kGpuPage);
    runtime_.options.nvme_bytes = Bytes();
    runtime_.hooks.load_cuda = [this]() -> absl::StatusOr<std::shared_ptr<device::CudaApi>> {
      return std::shared_ptr<device::CudaApi>(std::shared_ptr<void>(), &fake_.api());
    };
  }

  /// Runs, checks the bytes, ends the Runtime, checks what is left.
  void Run() {
    SCOPED_TRACE("call " + std::to_string(nth_));
    EXPECT_EQ(fake_.api().RetainContext(0, &context_), device::kCudaSuccess);
    EXPECT_EQ(fake_.api().PushContext(context_), device::kCudaSuccess);
    EXPECT_EQ(fake_.api().CreateStream(&users_), device::kCudaSuccess);
    fake_.Inject({.nth = nth_, .code = fault_.code, .sticky = fault_.sticky});
    if (auto made = internal::RuntimeAccess::Create(runtime_.options, runtime_.hooks); made.ok()) {
      Use(**made);
    } else {
      EXPECT_TRUE(met()) << made.status();
    }
    fake_.api().DestroyStream(users_);
    fake_.api().PopContext();
    fake_.api().ReleaseContext(0);
    if (!fault_.sticky && !GivesBack()) {
      EXPECT_THAT(fake_.Leaks(), ::testing::IsEmpty()) << entry();
    }
  }
  bool met() const { return fake_.injected().has_value(); }
  std::string entry() const { return met() ? testing::FakeEntryName(*fake_.injected()) : "none"; }

 private:
  static constexpr int kTensors = 3;
  static constexpr std::uint64_t kTensorBytes = kGpuPage;

  static testing::FakeCudaOptions Options() {
    testing::FakeCudaOptions options = CudaRuntimeFixture::SmallPages();
    options.address_pages = 64;
    options.delay_max = {};
    options.garbage = false;
    return options;
  }

  /// Whether the call gives something back, which stays behind if it fails, or begins such a call.
  bool GivesBack() const {
    static constexpr std::array kNames = {
        "Destroy", "Release", "Unmap", "FreeAddresses", "Unregister", "Pop", "Push", "Exchange"};
    return std::any_of(kNames.begin(), kNames.end(), [&](const char* name) {
      return entry().find(name) != std::string::npos;
    });
  }

  void Use(Runtime& runtime) {
    std::vector<TensorId> tensors;
    for (int i = 0; i < kTensors; ++i) {
      const std::string name = "tensor" + std::to_string(i);
      tensors.push_back(runtime.CreateTensor(testing::ByteTensor(name, kTensorBytes)).value());
      EXPECT_TRUE(runtime.Write(tensors.back(), BytesOf(i)).ok());
    }
    // The last is never in hbm.
    for (const int i : {0, 1, 0}) {
      Op op = runtime.BeginOp({.name = "use"});
      op.Acquire({.tensor = tensors[i], .mode = AccessMode::kReadWrite, .tier = kHbm0})
          .status()
          .IgnoreError();
    }
    StreamRef stream = runtime.AdoptStream(users_).value();
    for (const int i : {1, 0}) UseOnStream(runtime, stream, tensors[i]);
    runtime.SetBudget(kHbm0, Bytes(kGpuPage)).IgnoreError();
    for (int i = 0; i < kTensors; ++i) Check(runtime, tensors[i], i);
  }

  /// Has a kernel of the user's read and write the tensor, and leave its bytes as they are.
  void UseOnStream(Runtime& runtime, StreamRef& stream, TensorId tensor) {
    Op op = runtime.BeginOp({.name = "kernel"});
    Ticket ticket =
        op.AcquireAll({{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kHbm0}});
    if (!stream.WaitOn(ticket).ok()) return;
    auto leases = ticket.Take();
    if (!leases.ok()) return;
    fake_.LaunchAdd(leases->front().Contiguous(), 0, users_);
    // A user whose lease is refused waits for the kernel.
    if (!stream.ReleaseAfter(std::move(leases->front())).ok()) {
      fake_.api().SynchronizeStream(users_);
    }
    op.EndAfter(stream).IgnoreError();
  }

  void Check(Runtime& runtime, TensorId tensor, int i) {
    std::vector<std::byte> bytes(kTensorBytes);
    const absl::Status read = runtime.Read(tensor, bytes);
    if (read.ok()) {
      EXPECT_EQ(bytes, BytesOf(i)) << "tensor" << i;
      return;
    }
    EXPECT_TRUE(fault_.sticky && i + 1 < kTensors) << "lost for nothing: " << read;
    EXPECT_THAT(std::string(read.message()), HasSubstr("tensor" + std::to_string(i)));
  }

  static std::vector<std::byte> BytesOf(int i) {
    return testing::Pattern(static_cast<std::uint64_t>(i), kTensorBytes);
  }

  const Fault fault_;
  const std::uint64_t nth_;
  testing::FakeCuda fake_;
  device::CudaContext context_ = nullptr;
  device::CudaStream users_ = nullptr;
  testing::RuntimeFixture runtime_;
};

class CudaEveryFaultTest : public ::testing::TestWithParam<Fault> {};

/// Runs side by side, each with the failure of another call. Returns whether all met it.
bool RunFrom(Fault fault, std::uint64_t nth) {
  std::vector<std::unique_ptr<FaultyRun>> runs;
  std::vector<std::future<void>> ends;
  for (std::uint64_t i = 0; i < kRuns; ++i) {
    runs.push_back(std::make_unique<FaultyRun>(fault, nth + i * testing::kCaseStride));
    ends.push_back(std::async(std::launch::async, [run = runs.back().get()] { run->Run(); }));
  }
  for (std::uint64_t i = 0; i < kRuns; ++i) {
    const bool ended = ends[i].wait_for(std::chrono::seconds(60)) == std::future_status::ready;
    if (!ended) GTEST_LOG_(FATAL) << "a run hangs since a call failed: " << runs[i]->entry();
  }
  return std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run->met(); });
}

TEST_P(CudaEveryFaultTest, AnyCallMayFailInARunOfTheRuntime) {
  std::uint64_t nth = 1;
  while (RunFrom(GetParam(), nth) && !HasFailure()) {
    nth += kRuns * testing::kCaseStride;
    ASSERT_LT(nth, 10'000u) << "a run without a failure ends the loop";
  }
  EXPECT_GT(nth, 60u) << "the run has many calls";
}

INSTANTIATE_TEST_SUITE_P(Codes,
                         CudaEveryFaultTest,
                         ::testing::Values(Fault{device::kCudaInvalidValue},
                                           Fault{device::kCudaOutOfMemory},
                                           Fault{device::kCudaCaptureUnsupported},
                                           Fault{719, /*sticky=*/true}),
                         [](const auto& instance) {
                           return "Code" + std::to_string(instance.param.code);
                         });

}  // namespace
}  // namespace sluice
