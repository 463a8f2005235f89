#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/device/cuda/cuda_device.h"
#include "tests/hardware/gpu_lab.h"
#include "tests/runtime/device/cuda/driver_truths.h"
#include "tests/runtime/device/device_contract.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::CudaLab;
using ::testing::Each;
using testing::IsOk;

constexpr std::uint64_t kGpuPage = 2 << 20;

/// Empty where there is no GPU, so that no case is made for it.
std::vector<testing::DriverUnderTest> Drivers() {
  if (!testing::MakeGpuLab().ok()) return {};
  return {{.name = "Gpu", .make = [] { return *testing::MakeGpuLab(); }}};
}

std::string NameOfDriver(const ::testing::TestParamInfo<testing::DriverUnderTest>& instance) {
  return instance.param.name;
}

/// Copies on a stream of their own, as a user does.
device::CudaCode CopyOnce(CudaLab& lab, bool in, const device::CudaCopy& copy) {
  device::CudaApi& api = lab.api();
  device::CudaContext context = nullptr;
  device::CudaStream stream = nullptr;
  EXPECT_EQ(api.RetainContext(0, &context), device::kCudaSuccess);
  EXPECT_EQ(api.PushContext(context), device::kCudaSuccess);
  EXPECT_EQ(api.CreateStream(&stream), device::kCudaSuccess);
  device::CudaCode code = in ? api.CopyIn(copy, stream) : api.CopyOut(copy, stream);
  if (code == device::kCudaSuccess) code = api.SynchronizeStream(stream);
  api.DestroyStream(stream);
  api.PopContext();
  api.ReleaseContext(0);
  return code;
}

/// Whether the GPU may use the address. A copy there would end the context if it may not.
bool MayReadAndWrite(const std::byte* address) {
  PFN_cuMemGetAccess_v10020 get_access = nullptr;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemGetAccess",
                                             reinterpret_cast<void**>(&get_access),
                                             10020,
                                             cudaEnableDefault,
                                             nullptr),
            cudaSuccess);
  const CUmemLocation gpu{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  unsigned long long flags = 0;  // NOLINT(google-runtime-int): the driver's type
  const CUresult result = get_access(&flags, &gpu, reinterpret_cast<CUdeviceptr>(address));
  return result == CUDA_SUCCESS && flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

std::vector<device::DeviceFactory> Devices() {
  if (!testing::MakeGpuLab().ok()) return {};
  std::shared_ptr<CudaLab> lab = *testing::MakeGpuLab();
  return {
      {.name = "Gpu",
       .page_bytes = kGpuPage,
       .make =
           [lab](std::uint32_t frames) {
             return device::MakeCudaDevice(lab->api(), {.page_bytes = kGpuPage, .frames = frames});
           },
       .accessible = [](const std::byte* address) { return MayReadAndWrite(address); },
       .read =
           [lab](const std::byte* from, std::span<std::byte> host) {
             EXPECT_EQ(
                 CopyOnce(*lab, false, {.to = host.data(), .from = from, .bytes = host.size()}),
                 device::kCudaSuccess);
           },
       .write =
           [lab](std::byte* to, std::span<const std::byte> host) {
             EXPECT_EQ(CopyOnce(*lab, true, {.to = to, .from = host.data(), .bytes = host.size()}),
                       device::kCudaSuccess);
           }}};
}

/// A Runtime on the GPU, and a stream of the user's.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto lab = testing::MakeGpuLab();
    if (!lab.ok()) GTEST_SKIP() << lab.status().message();
    lab_ = *std::move(lab);
    ASSERT_EQ(lab_->api().RetainContext(0, &context_), device::kCudaSuccess);
    ASSERT_EQ(lab_->api().PushContext(context_), device::kCudaSuccess);
    ASSERT_EQ(lab_->api().CreateStream(&users_), device::kCudaSuccess);
    runtime_.options.device = DeviceKind::kCuda;
    runtime_.options.page_bytes = Bytes(kGpuPage);
    runtime_.options.hbm_bytes = Bytes(16 * kGpuPage);
    runtime_.options.dram_bytes = Bytes(32 * kGpuPage);
    runtime_.options.nvme_bytes = Bytes(256 * kGpuPage);
    runtime_.Start();
  }
  void TearDown() override {
    runtime_.Stop();
    if (lab_ == nullptr) return;
    lab_->api().DestroyStream(users_);
    lab_->api().PopContext();
    lab_->api().ReleaseContext(0);
  }

  /// Adds by a kernel that comes behind the copies of the tensor's pages.
  void Add(TensorId tensor, std::uint8_t value, StreamRef& stream) {
    Op op = runtime_->BeginOp({.name = "add"});
    Ticket ticket =
        op.AcquireAll({{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kHbm0}});
    ASSERT_THAT(stream.WaitOn(ticket), IsOk());
    auto leases = ticket.Take();
    ASSERT_THAT(leases, IsOk());
    ASSERT_EQ(lab_->LaunchAdd(leases->front().Contiguous(), value, users_), device::kCudaSuccess);
    ASSERT_THAT(stream.ReleaseAfter(std::move(leases->front())), IsOk());
    ASSERT_THAT(op.EndAfter(stream), IsOk());
  }

  std::unique_ptr<CudaLab> lab_;
  device::CudaContext context_ = nullptr;
  device::CudaStream users_ = nullptr;
  testing::RuntimeFixture runtime_;
};

TEST_F(GpuTest, KernelsSeeTensorsAtOneAddressThroughAllEvictions) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  StreamRef stream = runtime_->AdoptStream(users_).value();
  std::vector<TensorId> tensors;
  std::vector<std::vector<std::byte>> expected;
  for (std::uint64_t i = 0; i < 24; ++i) {
    const std::uint64_t bytes = kGpuPage * (1 + random() % 4) - random() % 1000;
    tensors.push_back(runtime_.Make("t" + std::to_string(i), bytes));
    expected.push_back(testing::Pattern(i, bytes));
    ASSERT_THAT(runtime_->Write(tensors[i], expected[i]), IsOk());
  }
  for (int step = 0; step < 200; ++step) {
    const std::size_t i = random() % tensors.size();
    const auto value = static_cast<std::uint8_t>(1 + random() % 200);
    Add(tensors[i], value, stream);
    for (std::byte& byte : expected[i]) {
      byte = static_cast<std::byte>(static_cast<std::uint8_t>(byte) + value);
    }
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<std::byte> bytes(expected[i].size());
    ASSERT_THAT(runtime_->Read(tensors[i], bytes), IsOk());
    EXPECT_TRUE(bytes == expected[i]) << "tensor " << i;
  }
}

TEST_F(GpuTest, ACapturedGraphSurvivesAnEvictionBetweenTwoReplays) {
  StreamRef stream = runtime_->AdoptStream(users_).value();
  const TensorId tensor = runtime_.Make("t", kGpuPage);
  const TensorId other = runtime_.Make("other", 16 * kGpuPage);
  testing::CudaGraph graph = nullptr;
  {
    auto lease =
        runtime_.Acquire({.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kHbm0});
    ASSERT_THAT(lease, IsOk());
    ASSERT_EQ(lab_->BeginCapture(users_, /*global=*/true), device::kCudaSuccess);
    ASSERT_EQ(lab_->LaunchAdd(lease->Contiguous(), 1, users_), device::kCudaSuccess);
    ASSERT_EQ(lab_->EndCapture(users_, &graph), device::kCudaSuccess);
  }
  for (int replay = 0; replay < 3; ++replay) {
    auto lease =
        runtime_.Acquire({.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kHbm0});
    ASSERT_THAT(lease, IsOk());
    ASSERT_EQ(lab_->LaunchGraph(graph, users_), device::kCudaSuccess);
    ASSERT_THAT(stream.ReleaseAfter(*std::move(lease)), IsOk());
    Add(other, 1, stream);  // takes all of hbm
    stream.Synchronize();
  }
  std::vector<std::byte> bytes(kGpuPage);
  ASSERT_THAT(runtime_->Read(tensor, bytes), IsOk());
  EXPECT_THAT(bytes, Each(std::byte{3}));
  EXPECT_EQ(lab_->DestroyGraph(graph), device::kCudaSuccess);
}

}  // namespace

namespace device {
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceContractTest);
INSTANTIATE_TEST_SUITE_P(Gpu,
                         DeviceContractTest,
                         ::testing::ValuesIn(Devices()),
                         [](const auto& instance) { return instance.param.name; });
}  // namespace device

namespace testing {
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaTruthTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaFatalTruthTest);
INSTANTIATE_TEST_SUITE_P(Gpu, CudaTruthTest, ::testing::ValuesIn(Drivers()), NameOfDriver);
INSTANTIATE_TEST_SUITE_P(Gpu, CudaFatalTruthTest, ::testing::ValuesIn(Drivers()), NameOfDriver);
}  // namespace testing
}  // namespace sluice
