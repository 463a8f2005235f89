#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numa/memory_limits.h"
#include "runtime/engine/api/runtime_state.h"
#include "runtime/engine/setup/option_limits.h"
#include "tests/runtime/engine/cuda/cuda_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using namespace sluice::literals;
using testing::CudaRuntimeFixture;
using testing::FakeCudaOptions;
using testing::HasCode;
using testing::IsOk;

/// Has the runtime look for GPUs at the fake driver.
void LookAt(testing::FakeCuda& fake, DeviceKind kind, testing::RuntimeFixture& runtime) {
  runtime.options.device = kind;
  runtime.options.page_bytes = Bytes(kGpuPage);
  runtime.options.hbm_bytes = Bytes(4 * kGpuPage);
  runtime.options.dram_bytes = Bytes(8 * kGpuPage);
  runtime.options.nvme_bytes = Bytes();
  runtime.hooks.load_cuda = [&fake]() -> absl::StatusOr<std::shared_ptr<device::CudaApi>> {
    return std::shared_ptr<device::CudaApi>(std::shared_ptr<void>(), &fake.api());
  };
}

struct Lack {
  std::string text;
  std::function<void(FakeCudaOptions&)> change;
};

std::vector<Lack> Lacks() {
  return {{"no GPU is visible", [](FakeCudaOptions& fake) { fake.devices = 0; }},
          {"the driver knows CUDA 12.8",
           [](FakeCudaOptions& fake) { fake.facts.driver_version = 12080; }},
          {"compute capability 7.0", [](FakeCudaOptions& fake) { fake.facts.compute_major = 7; }},
          {"page_bytes", [](FakeCudaOptions& fake) { fake.facts.granularity = 2 << 20; }}};
}

TEST(CudaFallbackTest, HbmBeyondTheHostsMemoryIsTheGpusMatterUntilThereIsNone) {
  const auto limits = numa::ReadMemoryLimits();
  ASSERT_THAT(limits, IsOk());
  for (const DeviceKind kind : {DeviceKind::kCuda, DeviceKind::kAuto}) {
    for (const int devices : {1, 0}) {
      FakeCudaOptions options = CudaRuntimeFixture::SmallPages();
      options.devices = devices;
      options.garbage = false;
      options.facts.granularity = (64_MiB).count();
      options.address_pages = 1 << 12;
      testing::FakeCuda fake(options);
      testing::RuntimeFixture runtime;
      LookAt(fake, kind, runtime);
      runtime.options.page_bytes = 64_MiB;
      runtime.options.dram_bytes = 320_MiB;
      runtime.options.hbm_bytes = Bytes(limits->total_bytes) + 64_MiB;
      const auto created = internal::RuntimeAccess::Create(runtime.options, runtime.hooks);
      const std::string said(created.status().message());
      if (devices == 1) {
        EXPECT_THAT(said, HasSubstr(" of the GPU's "));
      } else if (kind == DeviceKind::kCuda) {
        EXPECT_THAT(said, HasSubstr("no GPU is visible"));
      } else {
        EXPECT_THAT(said,
                    AllOf(HasSubstr("the emulated device takes "),
                          HasSubstr("lower tiers.hbm.bytes, or raise")));
      }
    }
  }
}

TEST(CudaPageBytesTest, TheDefaultLeavesEveryTierEnoughPages) {
  const auto chosen = [](DeviceKind device, Bytes hbm, Bytes dram, Bytes nvme) {
    RuntimeOptions options;
    options.device = device;
    options.hbm_bytes = hbm;
    options.dram_bytes = dram;
    options.nvme_bytes = nvme;
    return engine::DefaultPageBytes(options);
  };
  EXPECT_EQ(chosen(DeviceKind::kCuda, 64_GiB, 64_GiB, 64_GiB), 16_MiB);
  EXPECT_EQ(chosen(DeviceKind::kCuda, 4_GiB, 64_GiB, Bytes()), 16_MiB) << "256 pages of hbm";
  EXPECT_EQ(chosen(DeviceKind::kCuda, Bytes((4_GiB).count() - 1), 64_GiB, Bytes()), 8_MiB);
  EXPECT_EQ(chosen(DeviceKind::kCuda, 64_GiB, 64_GiB, 1_GiB), 4_MiB);
  EXPECT_EQ(chosen(DeviceKind::kAuto, 64_MiB, 64_MiB, 64_MiB), 2_MiB) << "never less";
  EXPECT_EQ(chosen(DeviceKind::kEmulated, 64_GiB, 64_GiB, 64_GiB), 2_MiB);
}

TEST(CudaPageBytesTest, TheKeyIsReadAndItsAbsenceIsTheDefault) {
  const std::string tiers =
      "device = \"cuda\"\n[tiers]\nhbm.bytes = \"2GiB\"\ndram.bytes = \"9GiB\"\n";
  const auto read = [](const std::string& text) {
    Config config = Config::Parse(text, "test").value();
    return ReadRuntimeOptions(config).value().page_bytes;
  };
  EXPECT_EQ(read(tiers), 8_MiB);
  EXPECT_EQ(read("page_bytes = \"2MiB\"\n" + tiers), 2_MiB);
}

TEST(CudaPageBytesTest, ARuntimeWithoutThemHasTheDefault) {
  FakeCudaOptions options;
  options.garbage = false;
  testing::FakeCuda fake(options);
  testing::RuntimeFixture runtime;
  LookAt(fake, DeviceKind::kCuda, runtime);
  runtime.options.page_bytes = Bytes();
  runtime.options.hbm_bytes = 8_MiB;
  runtime.options.dram_bytes = 16_MiB;
  runtime.Start();
  EXPECT_EQ(runtime->PageBytes(), 2_MiB);
}

TEST(CudaFallbackTest, CudaIsRefusedWithTheReason) {
  for (const Lack& lack : Lacks()) {
    FakeCudaOptions options = CudaRuntimeFixture::SmallPages();
    lack.change(options);
    testing::FakeCuda fake(options);
    testing::RuntimeFixture runtime;
    LookAt(fake, DeviceKind::kCuda, runtime);
    const auto created = internal::RuntimeAccess::Create(runtime.options, runtime.hooks);
    EXPECT_FALSE(created.ok()) << lack.text;
    EXPECT_THAT(std::string(created.status().message()), HasSubstr(lack.text));
  }
}

TEST(CudaFallbackTest, AutoTakesTheEmulatedDeviceAndSaysWhy) {
  for (const Lack& lack : Lacks()) {
    FakeCudaOptions options = CudaRuntimeFixture::SmallPages();
    lack.change(options);
    testing::FakeCuda fake(options);
    testing::RuntimeFixture runtime;
    LookAt(fake, DeviceKind::kAuto, runtime);
    runtime.Start();
    EXPECT_THAT(runtime->GetStats().fallbacks,
                Contains(AllOf(Field(&FallbackEvent::what, "cuda"),
                               Field(&FallbackEvent::reason, HasSubstr(lack.text)))));
    const TensorId tensor = runtime.Make("t", kGpuPage);
    EXPECT_TRUE(runtime.Acquire({.tensor = tensor, .tier = kHbm0})->host_accessible());
  }
}

TEST(CudaFallbackTest, AProgramThatTakesNoGpuSaysWhyBesideOne) {
  testing::FakeCuda fake(CudaRuntimeFixture::SmallPages());
  testing::RuntimeFixture runtime;
  LookAt(fake, DeviceKind::kAuto, runtime);
  runtime.options.cuda.why_none = "it computes on the CPU";
  runtime.Start();
  EXPECT_THAT(runtime->GetStats().fallbacks,
              Contains(AllOf(Field(&FallbackEvent::what, "cuda"),
                             Field(&FallbackEvent::reason, "it computes on the CPU"))));
  EXPECT_EQ(fake.calls(), 0u);
  runtime.options.device = DeviceKind::kCuda;
  EXPECT_THAT(internal::RuntimeAccess::Create(runtime.options, runtime.hooks).status(),
              HasCode(absl::StatusCode::kFailedPrecondition));
}

TEST(CudaFallbackTest, AutoTakesTheGpuThatIsThereAndRefusesOneThatIsFull) {
  testing::FakeCuda fake(CudaRuntimeFixture::SmallPages());
  {
    testing::RuntimeFixture runtime;
    LookAt(fake, DeviceKind::kAuto, runtime);
    runtime.Start();
    const TensorId tensor = runtime.Make("t", kGpuPage);
    EXPECT_FALSE(runtime.Acquire({.tensor = tensor, .tier = kHbm0})->host_accessible());
  }
  fake.TakeMemory((1LL << 30) - static_cast<std::int64_t>(kGpuPage));
  testing::RuntimeFixture runtime;
  LookAt(fake, DeviceKind::kAuto, runtime);
  const auto created = internal::RuntimeAccess::Create(runtime.options, runtime.hooks);
  EXPECT_THAT(created.status(), HasCode(absl::StatusCode::kResourceExhausted));
}

TEST(CudaFallbackTest, MemoryThatTheGpuRefusesIsAnnouncedAndStillCopied) {
  testing::FakeCuda fake(CudaRuntimeFixture::SmallPages());
  fake.Inject({.entry = testing::FakeEntry::kRegisterHost, .code = device::kCudaNotSupported});
  testing::RuntimeFixture runtime;
  LookAt(fake, DeviceKind::kCuda, runtime);
  runtime.Start();
  EXPECT_THAT(runtime->GetStats().fallbacks,
              Contains(Field(&FallbackEvent::what, "pinned_memory")));
  const TensorId tensor = runtime.Make("t", kGpuPage);
  const auto bytes = testing::Pattern(3, kGpuPage);
  ASSERT_THAT(runtime->Write(tensor, bytes), IsOk());
  EXPECT_THAT(runtime.Acquire({.tensor = tensor, .tier = kHbm0}), IsOk());
  EXPECT_GT(fake.blocking_copies(), 0u);
}

TEST(CudaFallbackTest, MemoryThatALargerBudgetTakesAndTheGpuRefusesIsAnnounced) {
  testing::FakeCuda fake(CudaRuntimeFixture::SmallPages());
  testing::RuntimeFixture runtime;
  LookAt(fake, DeviceKind::kCuda, runtime);
  runtime.options.dram_bytes = 8_MiB;
  runtime.Start();
  ASSERT_THAT(runtime->SetBudget(kDram0, 1_MiB), IsOk());
  const auto pinned = Contains(Field(&FallbackEvent::what, "pinned_memory"));
  EXPECT_THAT(runtime->GetStats().fallbacks, ::testing::Not(pinned));
  fake.Inject({.entry = testing::FakeEntry::kRegisterHost, .code = device::kCudaNotSupported});
  ASSERT_THAT(runtime->SetBudget(kDram0, 8_MiB), IsOk());
  EXPECT_THAT(runtime->GetStats().fallbacks, pinned);
}

/// Has the machine two nodes, of which the second, nearest to the GPU, has room for 4 pages.
void PutGpuOnFullNode(const testing::TempDirectory& system, testing::RuntimeFixture& runtime) {
  const std::string slot = system.path() + "/sys/bus/pci/devices/0000:00:00.0";
  std::filesystem::create_directories(slot);
  std::ofstream(slot + "/numa_node") << "1\n";
  runtime.hooks.system_root = system.path();
  runtime.hooks.memory_nodes = {{.index = 0}, {.index = 1, .available_bytes = 4 * kGpuPage}};
}

TEST(CudaFallbackTest, DramLiesOnTheNodeOfTheGpuAndTheRestIsAnnounced) {
  const auto split_of = [](DeviceKind kind, Use even) -> std::string {
    const testing::TempDirectory system;
    testing::FakeCuda fake(CudaRuntimeFixture::SmallPages());
    testing::RuntimeFixture runtime;
    LookAt(fake, kind, runtime);
    PutGpuOnFullNode(system, runtime);
    runtime.options.memory.even_split = even;
    runtime.Start();
    for (const FallbackEvent& event : runtime->GetStats().fallbacks) {
      if (event.what == "numa_split") return event.reason + ": " + event.chosen;
    }
    return "";
  };
  const std::string gpu_first =
      "node 1, which is nearest to the GPU, has 256 KiB available of 512 KiB: 256 KiB on node 1, "
      "256 KiB on node 0";
  for (const DeviceKind kind : {DeviceKind::kCuda, DeviceKind::kAuto}) {
    EXPECT_EQ(split_of(kind, Use::kAuto), gpu_first);
    EXPECT_EQ(split_of(kind, Use::kRequire), "") << "4 pages on each";
  }
  EXPECT_EQ(split_of(DeviceKind::kEmulated, Use::kAuto), "") << "no GPU, even shares";
}

TEST(CudaFallbackTest, ABuildMachineHasNoGpu) {
  testing::RuntimeFixture runtime;
  runtime.options.device = DeviceKind::kCuda;
  runtime.options.page_bytes = 2_MiB;
  runtime.options.hbm_bytes = 8_MiB;
  runtime.options.dram_bytes = 16_MiB;
  runtime.options.nvme_bytes = Bytes();
  const auto created = Runtime::Create(runtime.options);
  if (created.ok()) GTEST_SKIP() << "this machine has one";
  EXPECT_THAT(created.status(), HasCode(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace sluice
