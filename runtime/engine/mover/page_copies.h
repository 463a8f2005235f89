#pragma once

#include <array>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "runtime/core/actions.h"
#include "runtime/engine/data/segment.h"
#include "runtime/engine/mover/page_arrivals.h"

namespace sluice::engine {

/// Copies pages from tier to tier. A page that is mapped in its new frame is mapped while the copy
/// is under way. Threads: orders from the core thread.
class PageCopies {
 public:
  using SegmentPtr = std::shared_ptr<Segment>;

  /// `parts` and `arrivals` outlive it.
  PageCopies(const MoverParts& parts, PageArrivals& arrivals);

  /// Starts the task; its Completion follows.
  void Start(const core::StartCopy& order, const SegmentPtr& segment);
  /// Makes a copy urgent that was started and has not ended.
  void Hasten(const core::HastenCopy& order);

 private:
  struct CopyJob;
  struct Landing;

  void Submit(const CopyJob& job);
  void NoteUnderWay(const CopyJob& job);
  void FinishCopy(const CopyJob& job, const absl::Status& status);
  void FinishLanding(const CopyJob& job);
  bool MapsMeanwhile(const core::StartCopy& order, const Segment& segment) const;
  void MapMeanwhile(const CopyJob& job);
  void Trace(const CopyJob& job, LinkMeter::Clock::time_point end);

  const MoverParts& parts_;
  PageArrivals& arrivals_;
  std::array<std::array<std::string, 2>, core::kTiersMax - 1> tracks_;
};

}  // namespace sluice::engine
