#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "sluice/tensor.h"

/// A replacement policy of a program's own:
///
///   using namespace sluice;
///   class Queue : public Policy {  // for tier 0 alone: a Runtime without hbm
///     void OnArrive(int, const PageFacts& facts) override { pages_.push_back(facts.page); }
///     void OnUse(int, PageIndex) override {}
///     void OnLeave(int, PageIndex page, Departure) override { std::erase(pages_, page); }
///     std::optional<PageIndex> Victim(const VictimRequest&,
///                                     const std::function<bool(PageIndex)>& evictable) override {
///       const auto oldest = std::ranges::find_if(pages_, evictable);
///       return oldest == pages_.end() ? std::nullopt : std::optional(*oldest);
///     }
///     std::vector<PageIndex> pages_;
///   };
///   options.custom_policies["queue"] = {.create = [] { return std::make_unique<Queue>(); }};
///   options.policy = "queue";
///
/// examples/policy is a whole program. RuntimeOptions::policy alone names such a policy: TOML keys,
/// `sluice train` and `sluice lab` know the built-in ones. docs/policies.md says how to add
/// a built-in one.

namespace sluice {

/// An index of a page, stable while its segment lives.
using PageIndex = std::uint32_t;
/// Number of an op in the recorded sequence, counted across iterations.
using Position = std::uint64_t;
inline constexpr Position kNever = UINT64_MAX;

/// Facts that a policy gets of a page in a tier.
struct PageFacts {
  PageIndex page = 0;
  /// Kind of the page's tensor; of tensors that share a segment, that of the first.
  TensorKind kind = TensorKind::kOther;
  /// Position of the next recorded use; kNever if none is known, and for online policies.
  Position next_use = kNever;
  /// Whether leaving costs no write: the content is dead or valid elsewhere.
  bool free_to_leave = false;
  /// Whether coming back costs no read: the content is dead, or the next use overwrites it.
  bool free_to_return = false;
  friend bool operator==(const PageFacts&, const PageFacts&) = default;
};

/// Reason for which a page left a tier.
enum class Departure : std::uint8_t {
  kVictim,  ///< Policy::Victim named the page
  kOther,   ///< content died or is newer elsewhere, or the tier's budget was lowered
  kFreed,   ///< segment is gone; the index may be another page's from now on
};

/// A page to fetch, and the position before which the fetch should not start.
struct FetchAdvice {
  PageIndex page = 0;
  Position not_before = 0;
};

/// The question that Policy::Victim answers.
struct VictimRequest {
  /// Number of the tier: see Policy.
  int tier = 0;
  /// Frames that pages may fill in the tier.
  std::uint64_t frames = 0;
  /// Position of the current op.
  Position now = 0;
  /// The page that needs room; none for cleaning ahead and for a smaller budget.
  std::optional<PageIndex> incoming = std::nullopt;
};

/// Decides which page leaves a full tier, and which page to fetch ahead. Tiers are numbered from 0,
/// the fastest: hbm if it has a budget, else dram. The last one, which only stores, has no policy:
/// nvme, with or without a budget. A policy must be deterministic: no clock, and random
/// numbers only with a fixed seed.
/// Threads: called from one thread of the Runtime. Blocks: never. Lifetime: one Runtime.
class Policy {
 public:
  virtual ~Policy() = default;

  /// The page arrived in `tier`: by a fetch, as a new page, or from the tier above. OnUse follows
  /// for the use that it came for; later uses are hits. A page that a lease awaits may arrive with
  /// its index alone; OnChange gives the other facts.
  virtual void OnArrive(int tier, const PageFacts& facts) = 0;
  /// The page's facts changed while it is in `tier`.
  virtual void OnChange(int tier, const PageFacts& facts) {
    (void)tier;
    (void)facts;
  }
  /// A use of the page: a lease in `tier`, or a read on its way up.
  virtual void OnUse(int tier, PageIndex page) = 0;
  /// The page left `tier`. A freed page gets the call for every tier.
  virtual void OnLeave(int tier, PageIndex page, Departure why) = 0;
  /// Returns a page of the tier that `evictable` accepts, or none if there is none. `evictable`
  /// refuses pages that are leased or in motion, and those that a waiting ticket needs. Any other
  /// answer stops the program, since bytes would be lost. The Runtime need not follow the answer,
  /// so this function must not change the policy's state.
  virtual std::optional<PageIndex> Victim(const VictimRequest& request,
                                          const std::function<bool(PageIndex)>& evictable) = 0;
  /// Returns a page to fetch into `tier` ahead of need. The Runtime asks after every event until
  /// the answer is none, and then fetches in the recorded order (RuntimeOptions::prefetch_ops).
  virtual std::optional<FetchAdvice> NextFetch(int tier, Position now) {
    (void)tier;
    (void)now;
    return std::nullopt;
  }
};

/// A policy that RuntimeOptions::policy may name.
struct CustomPolicy {
  /// Makes the policy of one Runtime. Called once, in the thread that calls Runtime::Create.
  std::function<std::unique_ptr<Policy>()> create = {};
  /// Whether the policy decides without the schedule. next_use is always kNever then, and the
  /// Runtime itself uses no next use when it places victims. The flag matters once an iteration is
  /// recorded: set it to compare the policy fairly with other online ones.
  bool online = false;
};

}  // namespace sluice
