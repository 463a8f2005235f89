#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "runtime/device/device.h"
#include "sluice/events.h"
#include "sluice/runtime.h"

namespace sluice::engine {

/// Troubles of a Runtime, as sentences. Threads: any.
class HealthMonitor {
 public:
  /// Notes a fallback. False: the same one was noted before.
  bool NoteFallback(const FallbackEvent& event);
  void NoteFenced(const TierFencedEvent& event);
  void NoteFenced(const DriveFencedEvent& event);
  /// Notes that the tier has taken a page. True: the tier had been noted as fenced.
  bool NoteTakesPages(TierId tier);
  void NoteLostPage(const PageLostEvent& event);
  void NoteStalled(const TransferStalledEvent& event);
  void NoteDead(std::string reason);
  /// Asks the device for its health in each report from now on; null asks none. `device` outlives
  /// the next call.
  void Watch(const device::Device* device);

  HealthReport Report() const;
  std::vector<FallbackEvent> fallbacks() const;

 private:
  mutable base::Mutex mutex_;
  std::vector<FallbackEvent> fallbacks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> reasons_ ABSL_GUARDED_BY(mutex_);
  /// Causes of the tiers that are fenced now.
  std::map<TierId, std::string> fenced_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t pages_lost_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t transfers_stalled_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string last_lost_ ABSL_GUARDED_BY(mutex_);
  bool dead_ ABSL_GUARDED_BY(mutex_) = false;
  const device::Device* device_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace sluice::engine
