#pragma once

#include <memory>

#include "absl/status/status.h"
#include "base/timer.h"
#include "runtime/core/actions.h"
#include "runtime/engine/data/segment.h"
#include "runtime/engine/mover/page_arrivals.h"

namespace sluice::engine {

/// Gives frames the content of pages that no tier holds: from a file, by a callback, or zeros. A
/// fill that may pass later is tried again. Threads: orders from the core thread.
class PageFills {
 public:
  using SegmentPtr = std::shared_ptr<Segment>;

  /// `parts` and `arrivals` outlive it.
  PageFills(const MoverParts& parts, PageArrivals& arrivals);

  /// Starts the task. True: it is complete already, as nothing was to be done, and no Completion
  /// follows.
  bool Start(const core::StartFill& order, const SegmentPtr& segment);

 private:
  struct FillJob;

  bool StartNothing(const core::StartFill& order);
  void Post(FillJob job);
  void ReadHome(FillJob job);
  void Run(FillJob job);
  void MeterFile(const FillJob& job, const absl::Status& status);
  void Finish(FillJob job, absl::Status status);

  const MoverParts& parts_;
  PageArrivals& arrivals_;
  const base::Backoff backoff_;
  base::Timer timer_;
};

}  // namespace sluice::engine
