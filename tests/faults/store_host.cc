#include "tests/faults/store_host.h"

#include <atomic>
#include <thread>
#include <utility>

#include "io/page_store_parts.h"
#include "tests/faults/virtual_parts.h"
#include "tests/support/store_under_test.h"

namespace sluice::faults {
namespace {

/// How often a closing thread may go first before time passes; any number is right.
constexpr int kHeadStart = 200;

/// Real pauses are short, virtual ones are those of production.
constexpr std::chrono::microseconds kRealFirstPause{1};
constexpr int kRealPausesShorter = 1000;

io::PageStoreOptions StoreOptions(const StoreHostOptions& options) {
  return {.page_bytes = options.page_bytes,
          .slots = options.slots,
          .queue_depth = options.disk.in_flight_max};
}

class VirtualHost final : public StoreHost {
 public:
  explicit VirtualHost(const StoreHostOptions& options) {
    auto file = std::make_shared<io::MemoryFile>(options.page_bytes * options.slots);
    auto disk = std::make_unique<VirtualEngine>(clock_, std::move(file), options.disk);
    disk_ = disk.get();
    auto timer = std::make_unique<VirtualTimer>(clock_);
    auto faulty = MakeFaulty(options, std::move(disk), timer.get());
    store_ = io::AssemblePageStore(StoreOptions(options),
                                   {.engine = std::move(faulty),
                                    .engine_reason = "in virtual time",
                                    .files = nullptr,
                                    .timer = std::move(timer)},
                                   workers_);
  }
  ~VirtualHost() override { Close(); }

  io::PageStore& store() override { return *store_; }
  Executor& executor() override { return executor_; }
  std::chrono::microseconds now() const override { return clock_.now(); }
  bool struck() const override { return StoreHost::struck() || disk_->refusals() > 0; }
  void Heal() override {
    StoreHost::Heal();
    disk_->Heal();
  }

  /// With I/O in flight the one moment with a second thread: the destructor waits on it while time
  /// passes here.
  void Close() override {
    if (store_ == nullptr || clock_.idle()) return store_.reset();
    std::atomic<bool> closed = false;
    std::thread closer([&] {
      store_.reset();
      closed = true;
    });
    for (int i = 0; i < kHeadStart && !closed; ++i) std::this_thread::yield();
    while (clock_.RunNext()) continue;
    closer.join();
  }

 private:
  VirtualClock clock_;
  VirtualExecutor executor_{clock_};
  VirtualWorkers workers_{clock_};
  VirtualEngine* disk_ = nullptr;
  std::unique_ptr<io::PageStore> store_;
};

class RealHost final : public StoreHost {
 public:
  RealHost(testing::StoreKind kind, const StoreHostOptions& options)
      : store_({.kind = kind,
                .options = WithShortPauses(StoreOptions(options)),
                .wrap = [&](std::unique_ptr<io::IoEngine> upstream) {
                  return MakeFaulty(WithShortPauses(options), std::move(upstream), &timer_);
                }}) {}

  std::string unavailable() const override { return store_.unavailable(); }
  io::PageStore& store() override { return *store_; }
  Executor& executor() override { return executor_; }
  void Close() override { store_.Close(); }

 private:
  static io::PageStoreOptions WithShortPauses(io::PageStoreOptions options) {
    options.backoff.first_pause = kRealFirstPause;
    return options;
  }

  static StoreHostOptions WithShortPauses(StoreHostOptions options) {
    options.plan.pause /= kRealPausesShorter;
    return options;
  }

  ThreadExecutor executor_;
  base::Timer timer_{"sluice-late"};
  testing::StoreUnderTest store_;
};

}  // namespace

std::string ToString(Medium medium) {
  switch (medium) {
    case Medium::kVirtual:
      return "virtual";
    case Medium::kUring:
      return "io_uring";
    case Medium::kThreads:
      return "threads";
  }
  return "";
}

std::unique_ptr<testing::FaultyEngine> StoreHost::MakeFaulty(const StoreHostOptions& options,
                                                             std::unique_ptr<io::IoEngine> upstream,
                                                             base::Timer* timer) {
  testing::FaultHooks hooks = options.hooks;
  hooks.timer = timer;
  // Whoever waits for the held completion looks again.
  hooks.on_held = [this] { executor().Post([] {}); };
  auto faulty = std::make_unique<testing::FaultyEngine>(
      std::move(upstream), options.plan, options.page_bytes, std::move(hooks));
  engine_ = faulty.get();
  return faulty;
}

std::unique_ptr<StoreHost> MakeStoreHost(Medium medium, const StoreHostOptions& options) {
  switch (medium) {
    case Medium::kVirtual:
      return std::make_unique<VirtualHost>(options);
    case Medium::kUring:
      return std::make_unique<RealHost>(testing::StoreKind::kUring, options);
    case Medium::kThreads:
      return std::make_unique<RealHost>(testing::StoreKind::kThreads, options);
  }
  return nullptr;
}

}  // namespace sluice::faults
