#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "io/engine/io_engine.h"

namespace sluice::testing {

/// An engine over another that holds every request back until Open. So a test can act while I/O is
/// in flight. Threads: as every engine.
class GatedEngine final : public io::IoEngine {
 public:
  explicit GatedEngine(std::unique_ptr<io::IoEngine> upstream) : upstream_(std::move(upstream)) {}

  std::string_view name() const override { return upstream_->name(); }
  void Hasten(const io::IoFile& file, std::uint64_t offset, std::uint64_t bytes) override {
    {
      base::MutexLock lock(mutex_);
      hastened_.emplace_back(offset, bytes);
      changed_.NotifyAll();
    }
    upstream_->Hasten(file, offset, bytes);
  }
  /// Offsets and lengths that were hastened.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> hastened() const {
    base::MutexLock lock(mutex_);
    return hastened_;
  }

  /// Waits for `count` hastened ranges. Returns false if they do not come within seconds.
  bool WaitForHastened(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    base::MutexLock lock(mutex_);
    while (hastened_.size() < count) {
      if (!changed_.WaitUntil(mutex_, deadline)) return hastened_.size() >= count;
    }
    return true;
  }

  /// Holds requests back from now on.
  void Close() {
    base::MutexLock lock(mutex_);
    open_ = false;
  }
  /// Lets everything pass from now on.
  void Open() {
    std::vector<io::IoRequest*> held;
    {
      base::MutexLock lock(mutex_);
      open_ = true;
      held = std::move(held_);
    }
    for (io::IoRequest* request : held) Forward(request);
  }

  /// Waits until `count` requests are held back.
  void WaitForHeld(std::size_t count) {
    base::MutexLock lock(mutex_);
    while (held_.size() < count) changed_.Wait(mutex_);
  }

 protected:
  void SubmitChecked(io::IoRequest* request) override {
    {
      base::MutexLock lock(mutex_);
      if (!open_) {
        held_.push_back(request);
        changed_.NotifyAll();
        return;
      }
    }
    Forward(request);
  }

 private:
  void Forward(io::IoRequest* request) {
    SLUICE_CHECK(upstream_->Submit(request).ok(), "upstream has the same rules");
  }

  const std::unique_ptr<io::IoEngine> upstream_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<io::IoRequest*> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> hastened_ ABSL_GUARDED_BY(mutex_);
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice::testing
