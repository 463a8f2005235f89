#include <atomic>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/device/cuda/cuda_device.h"
#include "tests/runtime/device/cuda/cuda_under_test.h"
#include "tests/runtime/device/device_contract.h"
#include "tests/support/sanitizers.h"

namespace sluice::device {
namespace {

using testing::FakeCuda;

constexpr CudaCode kLaunchFailed = 719;

/// A short life of a device that uses every function. Each step may fail, but none may hang. Each
/// request is answered once.
class Life {
 public:
  explicit Life(FakeCuda& fake) : fake_(fake) {}

  /// Runs it and tells how many steps failed.
  int Run() {
    auto device = MakeCudaDevice(fake_.api(), {.page_bytes = kFakePageBytes, .frames = 6});
    if (!device.ok()) return 1;
    device_ = *std::move(device);
    {
      const PinnedPages host(*device_, 4);
      Count(host.status());
      if (host.status().ok()) Work(host);
    }
    Count(device_->Resize(2).status());
    Count(device_->Resize(6).status());
    device_.reset();
    EXPECT_EQ(asked_, answered_.load());
    return failures_.load();
  }

 private:
  void Count(const absl::Status& status) { failures_ += status.ok() ? 0 : 1; }
  DoneFn Answer() {
    ++asked_;
    return [this](const absl::Status& status) {
      Count(status);
      ++answered_;
    };
  }

  void Work(const PinnedPages& host) {
    for (std::uint32_t i = 0; i < 4; ++i) Fill(host.Page(i), i + 1);
    Completions in(4);
    for (std::uint32_t i = 0; i < 4; ++i) {
      device_->CopyIn(
          host.Page(i), i, [this, i, done = in.AnyDone()](const absl::Status& status) mutable {
            Count(status);
            came_[i] = status.ok();
            done(status);
          });
    }
    in.Wait();
    device_->Fill(4, 7, Answer());
    MapAndNotify();
    CheckBytes(host);
  }

  void MapAndNotify() {
    const auto range = device_->ReserveRange(4 * kFakePageBytes);
    Count(range.status());
    if (range.ok()) {
      for (std::uint32_t page = 0; page < 3; ++page) Count(device_->Map(**range, page, page));
      Count(device_->Map(**range, 0, 3));
      Count(device_->Unmap(**range, 1));
    }
    const auto stream = device_->CreateStream();
    Count(stream.status());
    if (!stream.ok()) return;
    const absl::Status taken = (*stream)->Notify(Answer());
    Count(taken);
    if (!taken.ok()) --asked_;
  }

  /// Checks that every page that arrived without an error comes back as it was.
  void CheckBytes(const PinnedPages& host) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      if (!came_[i]) continue;
      Fill(host.Page(i), 0xee);
      Completions out(1);
      bool back = false;
      device_->CopyOut(
          i, host.Page(i), [&, done = out.AnyDone()](const absl::Status& status) mutable {
            Count(status);
            back = status.ok();
            done(status);
          });
      out.Wait();
      EXPECT_TRUE(!back || AllAre(host.Page(i), i + 1)) << "frame " << i;
    }
  }

  FakeCuda& fake_;
  std::unique_ptr<Device> device_;
  std::array<std::atomic<bool>, 4> came_{};
  std::atomic<int> failures_ = 0;
  int asked_ = 0;
  std::atomic<int> answered_ = 0;
};

class CudaFaultTest : public ::testing::TestWithParam<std::pair<CudaCode, bool>> {};

/// Whether the call gives something back. If it fails, that is left behind.
bool GivesBack(const std::string& entry) {
  for (const char* name :
       {"Destroy", "Release", "Unmap", "FreeAddresses", "Unregister", "Pop", "Push", "Exchange"}) {
    if (entry.find(name) != std::string::npos) return true;
  }
  return false;
}

/// Lives of a device, each of which meets one failure, until a life meets none.
void FailEachCall(CudaCode code, bool sticky, const testing::FakeCudaOptions& options) {
  std::uint64_t nth = 1;
  for (bool met = true; met; ++nth) {
    ASSERT_LT(nth, 10'000u) << "a run without a failure ends the loop";
    FakeCuda fake(options);
    fake.Inject({.nth = nth, .code = code, .sticky = sticky});
    const int failures = Life(fake).Run();
    met = fake.injected().has_value();
    if (!met) {
      EXPECT_EQ(failures, 0);
      break;
    }
    const std::string entry = testing::FakeEntryName(*fake.injected());
    const bool waited = fake.calls(testing::FakeEntry::kSynchronizeStream) > 0;
    if (!GivesBack(entry) && !waited) {
      EXPECT_GT(failures, 0) << entry << ", call " << nth << ": its error was dropped";
    }
    if (!sticky && !GivesBack(entry)) {
      EXPECT_THAT(fake.Leaks(), ::testing::IsEmpty()) << entry << ", call " << nth;
    }
  }
  EXPECT_GT(nth, 60u) << "the life has many calls";
}

TEST_P(CudaFaultTest, EachCallMayFailOnceAndTheDeviceEnds) {
  for (const bool batches : {true, false}) {
    if (!batches && testing::kCaseStride > 1) break;
    SCOPED_TRACE(batches ? "several copies in a call" : "one copy in a call");
    testing::FakeCudaOptions options = SmallPages();
    options.batch_copies = batches;
    FailEachCall(GetParam().first, GetParam().second, options);
  }
}

INSTANTIATE_TEST_SUITE_P(Codes,
                         CudaFaultTest,
                         ::testing::Values(std::pair(kCudaOutOfMemory, false),
                                           std::pair(kCudaInvalidValue, false),
                                           std::pair(kLaunchFailed, true)),
                         [](const auto& instance) {
                           return "Code" + std::to_string(instance.param.first);
                         });

}  // namespace
}  // namespace sluice::device
