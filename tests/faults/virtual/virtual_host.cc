#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "tests/faults/hosts/store_host.h"
#include "tests/faults/virtual/virtual_parts.h"

namespace sluice::faults {
namespace {

/// Number of times that the closing thread may run before time passes. Any number is right.
constexpr int kHeadStart = 200;

/// Disks in virtual time.
class VirtualHost final : public StoreHost {
 public:
  VirtualHost(const StoreHostOptions& options, SlotLedger& ledger) : StoreHost(options, ledger) {
    io::DriveSetOptions set{.store = StoreOptions(), .directories = {}, .rates = {}};
    for (std::uint32_t i = 0; i < options.drives; ++i) {
      set.directories.push_back("/virtual" + std::to_string(i));
    }
    set.now = [this] { return clock_.time(); };
    Open(std::move(set), &timer_, workers_);
  }
  ~VirtualHost() override { Close(); }

  Executor& executor() override { return executor_; }
  std::chrono::microseconds now() const override { return clock_.now(); }
  bool struck() const override { return StoreHost::struck() || disks_[0]->refusals() > 0; }
  void Heal() override {
    StoreHost::Heal();
    disks_[0]->Heal();
  }
  std::uint64_t known_bytes(std::uint64_t) const override {
    std::uint64_t least = UINT64_MAX;
    for (const VirtualEngine* disk : disks_) least = std::min(least, disk->registered_bytes());
    return least;
  }

  /// Closes the store. With I/O in flight, the destructor waits in a second thread while time
  /// passes here. No other moment has two threads.
  void Close() override {
    if (closed_ || clock_.idle()) return CloseNow();
    std::atomic<bool> closed = false;
    std::thread closer([&] {
      CloseNow();
      closed = true;
    });
    for (int i = 0; i < kHeadStart && !closed; ++i) std::this_thread::yield();
    while (clock_.RunNext()) continue;
    closer.join();
  }

 private:
  void CloseNow() {
    StoreHost::Close();
    closed_ = true;
  }

  absl::StatusOr<io::PageStoreParts> MakeParts(const io::PageStoreOptions& drive) override {
    VirtualEngineOptions options = this->options().disk;
    if (!disks_.empty()) options.refusal = {};
    options.seed += 1'000'000 * disks_.size();
    auto file = std::make_shared<testing::MemoryFile>(drive.page_bytes * io::PlacesOf(drive));
    auto disk = std::make_unique<VirtualEngine>(clock_, std::move(file), options);
    disks_.push_back(disk.get());
    return io::PageStoreParts{.engine = std::move(disk),
                              .engine_reason = "in virtual time",
                              .files = nullptr,
                              .timer = std::make_unique<VirtualTimer>(clock_)};
  }

  VirtualClock clock_;
  VirtualExecutor executor_{clock_};
  VirtualWorkers workers_{clock_};
  VirtualTimer timer_{clock_};
  std::vector<VirtualEngine*> disks_;  ///< disks, valid until the store is closed
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<StoreHost> MakeVirtualHost(const StoreHostOptions& options, SlotLedger& ledger) {
  return std::make_unique<VirtualHost>(options, ledger);
}

}  // namespace sluice::faults
