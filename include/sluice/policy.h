#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "sluice/tensor.h"

namespace sluice {

/// What becomes of a tensor between its uses; the workload reads it with Runtime::Fate.
enum class Fate : std::uint8_t { kKeep, kOffload, kRecompute };

/// Raised whenever Policy changes incompatibly.
inline constexpr int kPolicyVersion = 1;

/// An index of a page, stable while its segment lives.
using PageIndex = std::uint32_t;
/// A place in the sequence of recorded ops, counted across iterations.
using Position = std::uint64_t;
inline constexpr Position kNever = UINT64_MAX;

/// What a policy may know of a page that sits in a tier.
struct PageFacts {
  PageIndex page = 0;
  TensorKind kind = TensorKind::kOther;
  /// Position of its next recorded use, kNever when none is known.
  Position next_use = kNever;
  /// Leaving costs nothing: the content is dead or valid elsewhere.
  bool free_to_leave = false;
};

/// What to page in next, and the position before which it should not start.
struct FetchAdvice {
  PageIndex page = 0;
  Position not_before = 0;
};

/// Decides whom to evict, where to, what to fetch next and when, and the fate of tensors. Tiers are
/// numbered from 0, the fastest. Residency is told to the policy as it changes; it must be
/// deterministic (no clock, no randomness without a fixed seed).
/// Threads: called from the core thread only. Blocks: never.
class Policy {
 public:
  virtual ~Policy() = default;
  /// The interface the policy was compiled against; a Runtime refuses another.
  virtual int version() const { return kPolicyVersion; }
  virtual std::string_view name() const = 0;

  /// A page in `tier` may be evicted from now on (it arrived, or its last lease there ended);
  /// changed its facts; may not be evicted any more (it is leased, in motion or gone).
  virtual void OnInsert(int tier, const PageFacts& facts) = 0;
  virtual void OnChange(int tier, const PageFacts& facts) = 0;
  virtual void OnRemove(int tier, PageIndex page) = 0;

  /// The next victim of `tier` among the pages that `evictable` accepts; none when there is none.
  virtual std::optional<PageIndex> Victim(int tier,
                                          const std::function<bool(PageIndex)>& evictable) = 0;

  /// The tier a dirty victim goes to; what is not between `tier` + 1 and the page's lowest counts
  /// as the nearer of the two. Further than one tier it passes through a transit frame, if one is
  /// free.
  virtual int EvictTo(int tier, PageIndex page) {
    (void)page;
    return tier + 1;
  }

  /// Whether `fetch`, next used at `use`, may push out `victim`, next used at `victim_use`.
  virtual bool MayDisplace(Position use, Position victim_use) const { return use < victim_use; }

  /// What to page in ahead of need into `tier`, where it goes as soon as a frame is to be had, but
  /// not before the position given. Asked after every event until it returns none; then the
  /// recorded order goes on (RuntimeOptions::prefetch_ops = 0 switches that off). A page that is
  /// advised again replaces the earlier advice. At most as many as a link's queue is deep are taken
  /// at once.
  virtual std::optional<FetchAdvice> NextFetch(int tier, Position now) {
    (void)tier;
    (void)now;
    return std::nullopt;
  }

  virtual Fate TensorFate(TensorId tensor) {
    (void)tensor;
    return Fate::kOffload;
  }
};

}  // namespace sluice
