#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/engine/cuda/cuda_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::CudaRuntimeFixture;
using ::testing::Each;
using testing::HasCode;
using ::testing::HasSubstr;
using testing::IsOk;

void AddToEach(std::vector<std::byte>& bytes, std::uint8_t value) {
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(static_cast<std::uint8_t>(byte) + value);
  }
}

TEST(CudaRuntimeTest, KernelsSeeTensorsAtOneAddressThroughAllEvictions) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
  std::vector<TensorId> tensors;
  std::vector<std::vector<std::byte>> expected;
  for (std::uint64_t i = 0; i < 12; ++i) {  // four times hbm, and more than dram
    const std::uint64_t bytes = kGpuPage * (1 + random() % 4) - random() % 1000;
    tensors.push_back(gpu.runtime().Make("t" + std::to_string(i), bytes));
    expected.push_back(testing::Pattern(i, bytes));
    ASSERT_THAT(gpu->Write(tensors[i], expected[i]), IsOk());
  }
  for (int step = 0; step < 60; ++step) {
    const std::size_t i = random() % tensors.size();
    const auto value = static_cast<std::uint8_t>(1 + random() % 200);
    ASSERT_THAT(gpu.Add(tensors[i], value, stream), IsOk());
    AddToEach(expected[i], value);
    if (step % 7 == 0) {
      const std::size_t other = random() % tensors.size();
      EXPECT_EQ(gpu.Bytes(tensors[other]).value(), expected[other]) << "tensor " << other;
    }
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(gpu.Bytes(tensors[i]).value(), expected[i]) << "tensor " << i;
  }
  EXPECT_GT(gpu.fake().bytes_out(), 0u) << "pages left hbm";
  EXPECT_EQ(gpu.fake().blocking_copies(), 0u) << "dram is registered";
}

TEST(CudaRuntimeTest, ANewTensorIsZeroThoughTheGpusMemoryIsNot) {
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
  const TensorId tensor = gpu.runtime().Make("t", 3 * kGpuPage);
  ASSERT_THAT(gpu.Add(tensor, 5, stream), IsOk());
  EXPECT_THAT(gpu.Bytes(tensor).value(), Each(std::byte{5}));
}

TEST(CudaRuntimeTest, OverwriteLeasesAreNanInTheGpusMemoryToo) {
  CudaRuntimeFixture gpu;
  gpu.runtime().options.fill_overwrite_with_nan = true;
  gpu.runtime().Start();
  const TensorId tensor = gpu.runtime().Make("t", 2 * kGpuPage);
  {
    const auto lease =
        gpu.runtime().Acquire({.tensor = tensor, .mode = AccessMode::kOverwrite, .tier = kHbm0});
    ASSERT_THAT(lease, IsOk());
  }
  EXPECT_THAT(gpu.Bytes(tensor).value(), Each(std::byte{0xff}));
}

TEST(CudaRuntimeTest, PagesAreReproducedInDram) {
  CudaRuntimeFixture gpu;
  testing::StoreFaults& faults = gpu.runtime().faults;
  gpu.runtime().hooks.wrap_store = [&](auto store) { return faults.Wrap(std::move(store)); };
  gpu.runtime().Start();
  StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
  TensorSpec spec = testing::ByteTensor("made", 2 * kGpuPage);
  spec.reproduce = [](ByteRange, std::span<std::byte> out) {
    std::fill(out.begin(), out.end(), std::byte{40});
    return absl::OkStatus();
  };
  const TensorId tensor = gpu->CreateTensor(spec).value();
  ASSERT_THAT(gpu->Write(tensor, std::vector<std::byte>(2 * kGpuPage, std::byte{40})), IsOk());
  const TensorId other = gpu.runtime().Make("other", 20 * kGpuPage);
  ASSERT_THAT(gpu->Write(other, testing::Pattern(1, 20 * kGpuPage)), IsOk()) << "more than dram";
  faults.FailReads(absl::DataLossError("checksum mismatch"));
  ASSERT_THAT(gpu.Add(tensor, 2, stream), IsOk());
  EXPECT_THAT(gpu.Bytes(tensor).value(), Each(std::byte{42}));
}

TEST(CudaRuntimeTest, ASmallerBudgetGivesFramesBackAtOnce) {
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
  const TensorId tensor = gpu.runtime().Make("t", 6 * kGpuPage);
  ASSERT_THAT(gpu.Add(tensor, 1, stream), IsOk());
  stream.Synchronize();
  const std::uint64_t before = gpu.fake().calls(testing::FakeEntry::kReleaseMemory);
  ASSERT_THAT(gpu->SetBudget(kHbm0, Bytes(2 * kGpuPage)), IsOk());
  EXPECT_EQ(gpu.fake().calls(testing::FakeEntry::kReleaseMemory) - before, 6u);
  ASSERT_THAT(gpu->SetBudget(kHbm0, Bytes(8 * kGpuPage)), IsOk());
  ASSERT_THAT(gpu.Add(tensor, 1, stream), IsOk());
  EXPECT_THAT(gpu.Bytes(tensor).value(), Each(std::byte{2}));
}

/// A Runtime whose dram has several chunks, of which the GPU has registered the first.
class CudaRegistrationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    gpu_.runtime().options.dram_bytes = sluice::Bytes(kDramPages * kGpuPage);
    gpu_.fake().HoldRegistrations(/*passing=*/1);
    gpu_.runtime().Start();
  }
  void TearDown() override { gpu_.fake().ReleaseRegistrations(); }

  static constexpr std::uint64_t kDramPages = 128;
  CudaRuntimeFixture gpu_;
};

TEST_F(CudaRegistrationTest, TheFirstPageDoesNotWaitForTheLastChunk) {
  const auto bytes = testing::Pattern(1, kGpuPage);
  const TensorId first = gpu_.runtime().Make("first", kGpuPage);
  ASSERT_THAT(gpu_->Write(first, bytes), IsOk());
  EXPECT_THAT(gpu_.runtime().Acquire({.tensor = first, .tier = kHbm0}), IsOk());
  EXPECT_EQ(gpu_.fake().blocking_copies(), 0u);
}

TEST_F(CudaRegistrationTest, APageOfAChunkThatIsNotRegisteredWaitsForIt) {
  const std::uint64_t most = (kDramPages - 16) * kGpuPage;
  const TensorId large = gpu_.runtime().Make("large", most);
  const auto bytes = testing::Pattern(2, most);
  ASSERT_THAT(gpu_->Write(large, bytes), IsOk()) << "the host needs no registration";
  Op op = gpu_->BeginOp({.name = "last"});
  Ticket ticket =
      op.AcquireAll({{.tensor = large, .range = {most - kGpuPage, kGpuPage}, .tier = kHbm0}});
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  EXPECT_THAT(ticket.Wait(soon), HasCode(absl::StatusCode::kDeadlineExceeded));
  gpu_.fake().ReleaseRegistrations();
  EXPECT_THAT(ticket.Wait(), IsOk());
  EXPECT_EQ(gpu_.fake().blocking_copies(), 0u) << "the copy waits, rather than stop a thread";
  ticket.Cancel();
  op.End();
  EXPECT_EQ(gpu_.Bytes(large).value(), bytes);
}

TEST_F(CudaRegistrationTest, AChunkThatIsRefusedLaterIsAnnouncedAndStillCopied) {
  gpu_.fake().Inject(
      {.entry = testing::FakeEntry::kRegisterHost, .code = device::kCudaNotSupported});
  gpu_.fake().ReleaseRegistrations();
  const std::uint64_t most = (kDramPages - 16) * kGpuPage;
  const TensorId large = gpu_.runtime().Make("large", most);
  ASSERT_THAT(gpu_->Write(large, testing::Pattern(2, most)), IsOk());
  for (std::uint64_t at = 0; at < most; at += kGpuPage) {
    const auto lease =
        gpu_.runtime().Acquire({.tensor = large, .range = {at, kGpuPage}, .tier = kHbm0});
    ASSERT_THAT(lease, IsOk());
  }
  EXPECT_GT(gpu_.fake().blocking_copies(), 0u);
  EXPECT_THAT(gpu_->GetStats().fallbacks,
              ::testing::Contains(::testing::Field(&FallbackEvent::what, "pinned_memory")));
}

TEST(CudaRuntimeTest, DramGoesBackAtTheEndOfTheIterationThatLoweredItsBudget) {
  CudaRuntimeFixture gpu;
  gpu.runtime().options.dram_bytes = sluice::Bytes(128 * kGpuPage);
  gpu.runtime().Start();
  const auto unregistered = [&] { return gpu.fake().calls(testing::FakeEntry::kUnregisterHost); };
  // A change of hbm runs after all that the mapper was asked for.
  const auto settle = [&](std::uint64_t pages) {
    ASSERT_THAT(gpu->SetBudget(kHbm0, Bytes(pages * kGpuPage)), IsOk());
  };
  ASSERT_THAT(gpu->BeginIteration("train"), IsOk());
  ASSERT_THAT(gpu->SetBudget(kDram0, Bytes(64 * kGpuPage)), IsOk());
  settle(7);
  EXPECT_EQ(gpu->GetStats().tiers.at("dram").budget_bytes, 64 * kGpuPage);
  EXPECT_EQ(unregistered(), 0u) << "an unregistration would wait for running kernels, hbm as well";
  ASSERT_THAT(gpu->EndIteration(), IsOk());
  settle(6);
  EXPECT_GT(unregistered(), 0u);
  const std::uint64_t before = unregistered();
  ASSERT_THAT(gpu->SetBudget(kDram0, Bytes(16 * kGpuPage)), IsOk());
  EXPECT_GT(unregistered(), before) << "outside of an iteration, before it returns";
}

TEST(CudaRuntimeTest, ALargerBudgetInTheSameIterationFindsItsMemoryStill) {
  CudaRuntimeFixture gpu;
  gpu.runtime().options.dram_bytes = sluice::Bytes(128 * kGpuPage);
  gpu.runtime().Start();
  ASSERT_THAT(gpu->BeginIteration("train"), IsOk());
  ASSERT_THAT(gpu->SetBudget(kDram0, Bytes(32 * kGpuPage)), IsOk());
  ASSERT_THAT(gpu->SetBudget(kDram0, Bytes(128 * kGpuPage)), IsOk());
  ASSERT_THAT(gpu->EndIteration(), IsOk());
  ASSERT_THAT(gpu->SetBudget(kHbm0, Bytes(7 * kGpuPage)), IsOk());
  EXPECT_EQ(gpu.fake().calls(testing::FakeEntry::kUnregisterHost), 0u);
  const TensorId tensor = gpu.runtime().Make("t", 100 * kGpuPage);
  const auto bytes = testing::Pattern(1, 100 * kGpuPage);
  ASSERT_THAT(gpu->Write(tensor, bytes), IsOk());
  EXPECT_EQ(gpu.Bytes(tensor).value(), bytes);
}

TEST(CudaRuntimeTest, SpansAndReservationsOfDramArePinnedAndATensorsOwnAddressIsNot) {
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  device::CudaApi& api = gpu.fake().api();
  const auto registered = [&](const std::byte* address) {
    bool known = false;
    EXPECT_EQ(api.IsRegistered(address, &known), device::kCudaSuccess);
    return known;
  };
  const TensorId tensor = gpu.runtime().Make("t", 2 * kGpuPage);
  {
    const auto spans =
        gpu.runtime().Acquire({.tensor = tensor, .tier = kDram0, .contiguous = false});
    ASSERT_THAT(spans, IsOk());
    EXPECT_TRUE(spans->pinned());
    for (const std::span<std::byte> span : spans->Spans()) EXPECT_TRUE(registered(span.data()));
  }
  {
    const auto whole = gpu.runtime().Acquire({.tensor = tensor, .tier = kDram0});
    ASSERT_THAT(whole, IsOk());
    EXPECT_FALSE(whole->pinned());
    EXPECT_FALSE(registered(whole->Contiguous().data()));
  }
  {
    const auto hbm = gpu.runtime().Acquire({.tensor = tensor, .tier = kHbm0, .contiguous = false});
    ASSERT_THAT(hbm, IsOk());
    EXPECT_FALSE(hbm->pinned()) << "it is no memory of the host";
  }
  const auto reserved = gpu->Reserve(kDram0, Bytes(2 * kGpuPage));
  ASSERT_THAT(reserved, IsOk());
  for (const std::span<std::byte> span : reserved->Spans()) EXPECT_TRUE(registered(span.data()));
}

TEST(CudaRuntimeTest, NothingIsPinnedThatTheGpuRefusedOrWithoutAGpu) {
  {
    CudaRuntimeFixture gpu;
    gpu.fake().Inject(
        {.entry = testing::FakeEntry::kRegisterHost, .code = device::kCudaNotSupported});
    gpu.runtime().Start();
    const TensorId tensor = gpu.runtime().Make("t", kGpuPage);
    EXPECT_FALSE(
        gpu.runtime().Acquire({.tensor = tensor, .tier = kDram0, .contiguous = false})->pinned());
  }
  testing::RuntimeFixture emulated;
  emulated.Start();
  const TensorId tensor = emulated.Make("t", 4096);
  EXPECT_FALSE(emulated.Acquire({.tensor = tensor, .tier = kDram0, .contiguous = false})->pinned());
}

TEST(CudaRuntimeTest, ADeadGpuLosesByNameWhatItAloneHeldAndNothingElse) {
  CudaRuntimeFixture gpu;
  gpu.runtime().options.listener = &gpu.runtime().listener;
  gpu.runtime().Start();
  const TensorId safe = gpu.runtime().Make("safe", kGpuPage);
  const TensorId held = gpu.runtime().Make("held", kGpuPage);
  const auto bytes = testing::Pattern(1, kGpuPage);
  ASSERT_THAT(gpu->Write(safe, bytes), IsOk());
  ASSERT_THAT(gpu->Write(held, bytes), IsOk());
  {
    StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
    ASSERT_THAT(gpu.Add(held, 1, stream), IsOk());
    stream.Synchronize();
    gpu.fake().FailWork(1, device::kCudaIllegalAddress);
    ASSERT_EQ(gpu.fake().LaunchAdd({}, 0, gpu.user_stream()), device::kCudaSuccess);
    stream.Synchronize();
  }
  EXPECT_EQ(gpu.Bytes(safe).value(), bytes);
  const auto lost = gpu.Bytes(held);
  EXPECT_THAT(lost, HasCode(absl::StatusCode::kDataLoss));
  EXPECT_THAT(std::string(lost.status().message()),
              AllOf(HasSubstr("held"), HasSubstr("the GPU is lost")));
  const auto lease = gpu.runtime().Acquire({.tensor = safe, .tier = kHbm0});
  EXPECT_FALSE(lease.ok());
  EXPECT_THAT(std::string(lease.status().message()), HasSubstr("the GPU is lost"));
  EXPECT_EQ(gpu.Bytes(safe).value(), bytes);
}

TEST(CudaRuntimeTest, ADeadGpuIsAReasonOfHealth) {
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  const TensorId tensor = gpu.runtime().Make("t", kGpuPage);
  ASSERT_THAT(gpu->Write(tensor, testing::Pattern(1, kGpuPage)), IsOk());
  EXPECT_EQ(gpu->Health().state, HealthState::kOk);
  gpu.fake().FailWork(1, device::kCudaIllegalAddress);
  EXPECT_FALSE(gpu.runtime().Acquire({.tensor = tensor, .tier = kHbm0}).ok());
  const HealthReport report = gpu->Health();
  EXPECT_EQ(report.state, HealthState::kDegraded) << "dram and nvme still answer";
  EXPECT_THAT(report.reasons, ::testing::Contains(HasSubstr("the GPU is lost")));
}

TEST(CudaRuntimeDeathTest, ElementsOfAGpuAreNotForTheHost) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The directory, and all that the dying process leaves in it, goes at the end.
  const testing::TempDirectory parent;
  const testing::ScopedEnvironment inherited("TMPDIR", parent.path());
  const auto touch = [] {
    CudaRuntimeFixture gpu;
    gpu.runtime().Start();
    const TensorId tensor = gpu.runtime().Make("t", kGpuPage);
    const auto lease = gpu.runtime().Acquire({.tensor = tensor, .tier = kHbm0});
    EXPECT_FALSE(lease->host_accessible());
    lease->As<float>();
  };
  EXPECT_DEATH(touch(), "Lease::As is for the host");
}

}  // namespace
}  // namespace sluice
