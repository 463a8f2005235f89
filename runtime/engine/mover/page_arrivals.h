#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "base/worker_pool.h"
#include "runtime/core/actions.h"
#include "runtime/engine/control/mailbox.h"
#include "runtime/engine/data/link_meter.h"
#include "runtime/engine/data/page_mapper.h"
#include "runtime/engine/data/serial_executor.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/report/logger.h"
#include "runtime/engine/views/page_views.h"
#include "sluice/events.h"

namespace sluice::engine {

/// Parts of the Runtime that a DataMover works with. They outlive it and its last completion.
struct MoverParts {
  const TierSet* tiers = nullptr;
  SerialExecutor* mapper = nullptr;
  base::WorkerPool* workers = nullptr;
  Mailbox* mailbox = nullptr;
  LinkMeters* meters = nullptr;
  Logger* logger = nullptr;
  TraceSink trace;
  /// Processors of the thread that tries again; empty: processors of its maker.
  std::vector<int> cpus;
  /// See PageViews::Options; unset where no segment is readable outside a lease.
  std::function<core::NewestCopy(PageIndex)> find_newest;
};

inline core::CopyPlace FrameOf(core::TierIndex tier, core::FrameIndex frame) {
  return {core::CopyPlace::Kind::kFrame, tier, frame};
}

/// Arrivals of pages: maps a page, shows it where its bytes are, and tells the core. The mapper
/// thread maps and unmaps in the order of the requests, so an older unmapping never hits a page
/// that came back. Threads: the core thread calls TakeFrame and Forget, any thread the rest.
class PageArrivals {
 public:
  /// `parts` outlive it.
  explicit PageArrivals(const MoverParts& parts);

  /// Notes that a frame is the page's from now on, or, with kNoPage, a reservation's. `fills`: see
  /// PageViews::TakeFrame.
  void TakeFrame(core::TierIndex tier, core::FrameIndex frame, PageIndex page, bool fills = false);
  /// Completes a task whose bytes are in the frame, once the page is mapped if `map` is set.
  void Arrive(core::TaskNumber task, const PageInFrame& place, bool map);
  /// Completes a task once the page is mapped.
  void Map(core::TaskNumber task, const PageInFrame& place);
  /// Notes that a mapped page has left its frame.
  void Leave(const PageInFrame& place);
  /// Forgets the mappings of pages that were freed.
  void Forget(const PageRun& run);

  void Report(core::TaskNumber task);
  void ReportFailure(core::TaskNumber task, core::FailureKind kind, absl::Status cause);

  PageMapper& mapper() { return mapper_; }
  PageViews& views() { return views_; }

 private:
  void PostUnmap(PageInFrame place);

  const MoverParts& parts_;
  PageMapper mapper_;
  PageViews views_;
};

}  // namespace sluice::engine
