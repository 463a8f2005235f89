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

  /// Nothing is above; `op` is the next.
  void BeginEmpty(std::uint32_t op);
  /// `op` has just ended, and beside its pages whatever suits best is above.
  void BeginAfter(std::uint32_t op);
  /// The next op begins and ends.
  void Step();
  std::uint64_t fetches() const { return fetches_; }
  /// Both fetch the same from here on. REQUIRES: of the same uses.
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

/// Likewise the least copies out of what ops write above (windows.h, "Out"): of content that
/// was written since the walk began, what is no longer above at each op, though it is needed.
class OutWalk {
 public:
  /// `uses` outlives the walk.
  explicit OutWalk(const PageUses& uses);

  /// `op` has just ended.
  void BeginAfter(std::uint32_t op);
  void Step();
  std::uint64_t copies() const { return copies_; }

 private:
  std::uint64_t EndAndCountOwn(std::uint32_t op);
  void AddWritten(std::uint32_t op);

  const PageUses& uses_;
  IntervalPool kept_;
  /// Of each item, the moment until which content written since the walk began is needed.
  std::vector<std::uint64_t> fresh_until_;
  /// Ops since the start of the walk.
  std::uint64_t now_ = 0;
  std::uint32_t op_ = 0;
  std::uint64_t copies_ = 0;
};

}  // namespace sluice::analysis
