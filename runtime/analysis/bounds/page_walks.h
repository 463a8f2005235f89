#pragma once

#include <cstdint>
#include <vector>

#include "runtime/analysis/bounds/interval_pool.h"
#include "runtime/analysis/bounds/page_uses.h"

namespace sluice::analysis {

/// Counts, op by op, the least fetches over a link (windows.h, "In"): after each step those
/// without which the ops so far could not have begun, whatever follows. Belady's MIN on pages.
class InWalk {
 public:
  /// `uses` outlives the walk.
  explicit InWalk(const PageUses& uses);

  /// Begins with no page above; `op` is the next.
  void BeginEmpty(std::uint32_t op);
  /// Begins when `op` has just ended, and beside its pages those that suit best are above.
  void BeginAfter(std::uint32_t op);
  /// Lets the next op begin and end.
  void Step();
  std::uint64_t fetches() const { return fetches_; }
  /// Whether both walks fetch the same from here on. REQUIRES: walks of the same uses.
  bool StandsWhere(const InWalk& other) const {
    return next_op_ == other.next_op_ && kept_.HoldsTheSameAs(other.kept_);
  }

 private:
  void FillBeside(std::uint32_t op);
  void KeepUsesOf(std::uint32_t op);
  void DropTo(std::uint64_t pages, std::uint32_t op);

  const PageUses& uses_;
  IntervalPool kept_;
  std::uint32_t next_op_ = 0;
  std::uint64_t fetches_ = 0;
};

/// Counts, op by op, the least copies out of content that ops write above (windows.h, "Out"). They
/// are those of content that was written since the walk began, and is no longer above at an op,
/// though it is needed.
class OutWalk {
 public:
  /// `uses` outlives the walk.
  explicit OutWalk(const PageUses& uses);

  /// Begins when `op` has just ended.
  void BeginAfter(std::uint32_t op);
  void Step();
  std::uint64_t copies() const { return copies_; }

 private:
  std::uint64_t EndAndCountOwn(std::uint32_t op);
  void AddWritten(std::uint32_t op);

  const PageUses& uses_;
  IntervalPool kept_;
  /// Moment until which content of each item, written since the walk began, is needed.
  std::vector<std::uint64_t> fresh_until_;
  /// Number of ops since the start of the walk.
  std::uint64_t now_ = 0;
  std::uint32_t op_ = 0;
  std::uint64_t copies_ = 0;
};

}  // namespace sluice::analysis
