#include <memory>
#include <utility>

#include "tests/faults/hosts/store_host.h"
#include "tests/support/temp_directory.h"

namespace sluice::faults {
namespace {

/// Real pauses are short, virtual ones are those of production.
constexpr std::chrono::microseconds kFirstPause{1};
constexpr int kPausesShorter = 1000;

StoreHostOptions WithShortPauses(StoreHostOptions options) {
  options.plan.pause /= kPausesShorter;
  return options;
}

/// Files without names, on a ring or on threads.
class RealHost final : public StoreHost {
 public:
  RealHost(const StoreHostOptions& options, SlotLedger& ledger)
      : StoreHost(WithShortPauses(options), ledger) {
    io::DriveSetOptions set{.store = StoreOptions(), .directories = {}, .rates = {}};
    set.store.backoff.first_pause = kFirstPause;
    set.store.direct = Use::kRequire;
    set.store.io_uring = options.medium == Medium::kUring ? Use::kRequire : Use::kOff;
    for (std::uint32_t i = 0; i < options.drives; ++i) {
      directories_.push_back(std::make_unique<testing::TempDirectory>());
      set.directories.push_back(directories_.back()->path());
    }
    Open(std::move(set), &timer_, workers_);
  }
  ~RealHost() override { Close(); }

  Executor& executor() override { return executor_; }
  bool registers_memory() const override { return options().medium == Medium::kUring; }

 private:
  absl::StatusOr<io::PageStoreParts> MakeParts(const io::PageStoreOptions& drive) override {
    return io::MakePageStoreParts(drive);
  }

  std::vector<std::unique_ptr<testing::TempDirectory>> directories_;
  ThreadExecutor executor_;
  base::Timer timer_{"sluice-late"};
  base::WorkerPool workers_{{.threads = 2, .name = "test-worker", .cpus = {}}};
};

}  // namespace

std::unique_ptr<StoreHost> MakeRealHost(const StoreHostOptions& options, SlotLedger& ledger) {
  return std::make_unique<RealHost>(options, ledger);
}

}  // namespace sluice::faults
