#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "sluice/tensor.h"

/// A replacement policy of a program's own:
///
///   class Mru : public sluice::Policy { ... };
///   options.custom_policies["mru"] = {.create = [] { return std::make_unique<Mru>(); }};
///   options.policy = "mru";
///
/// examples/policy is a whole program.

namespace sluice {

/// An index of a page, stable while its segment lives.
using PageIndex = std::uint32_t;
/// A place in the sequence of recorded ops, counted across iterations.
using Position = std::uint64_t;
inline constexpr Position kNever = UINT64_MAX;

/// What a policy may know of a page that sits in a tier.
struct PageFacts {
  PageIndex page = 0;
  TensorKind kind = TensorKind::kOther;
  /// Position of its next recorded use, kNever when none is known. An online policy is told kNever.
  Position next_use = kNever;
  /// Leaving costs nothing: the content is dead or valid elsewhere.
  bool free_to_leave = false;
  /// Coming back costs nothing: the content is dead, or its next recorded use overwrites it.
  bool free_to_return = false;
  friend bool operator==(const PageFacts&, const PageFacts&) = default;
};

/// Why a page is no longer in a tier.
enum class Departure : std::uint8_t {
  kVictim,  ///< Victim named it
  kOther,   ///< its content died or is newer elsewhere, or the tier's budget was lowered
  kFreed,   ///< its segment is gone: the index may be another page's from now on
};

/// What to page in next, and the position before which it should not start.
struct FetchAdvice {
  PageIndex page = 0;
  Position not_before = 0;
};

/// The question that Policy::Victim answers.
struct VictimRequest {
  int tier = 0;
  /// Frames that pages may fill in the tier.
  std::uint64_t frames = 0;
  /// Position of the op that is asked for now.
  Position now = 0;
  /// The page that room is made for; none where no page comes (cleaning ahead, a smaller budget).
  std::optional<PageIndex> incoming = std::nullopt;
};

/// Decides which page leaves a full tier, and what to fetch ahead. Tiers are numbered from 0, the
/// fastest; the policy hears nothing of the last one. A policy must be deterministic: no clock, no
/// random numbers without a fixed seed.
/// Threads: called from one thread of the Runtime. Blocks: never. Lifetime: one Runtime.
class Policy {
 public:
  virtual ~Policy() = default;

  /// The page arrived in `tier`: by a fetch, as a new page, or from the tier above. The use that
  /// it came for follows as an OnUse; later ones are hits. A page that a lease awaits may arrive
  /// with its index alone: OnChange then gives its facts.
  virtual void OnArrive(int tier, const PageFacts& facts) = 0;
  /// The page's facts changed while it is in `tier`.
  virtual void OnChange(int tier, const PageFacts& facts) {
    (void)tier;
    (void)facts;
  }
  /// One use: a lease in `tier`, or a read of the page on its way up.
  virtual void OnUse(int tier, PageIndex page) = 0;
  /// The page left `tier`. A freed page is told for every tier, also those where it is not.
  virtual void OnLeave(int tier, PageIndex page, Departure why) = 0;
  /// A page of the tier that `evictable` accepts; none when there is none. Any other answer stops
  /// the program: bytes would be lost. The call is a question, whose answer need not be followed:
  /// a policy changes its state in the functions above only.
  virtual std::optional<PageIndex> Victim(const VictimRequest& request,
                                          const std::function<bool(PageIndex)>& evictable) = 0;
  /// A page to fetch into `tier` ahead of need. Asked after every event until it returns none;
  /// then the recorded order goes on (RuntimeOptions::prefetch_ops = 0 switches that off).
  virtual std::optional<FetchAdvice> NextFetch(int tier, Position now) {
    (void)tier;
    (void)now;
    return std::nullopt;
  }
};

/// A policy that RuntimeOptions::policy may name.
struct CustomPolicy {
  /// Makes the policy of one Runtime.
  std::function<std::unique_ptr<Policy>()> create = {};
  /// Decides without the schedule: next_use is always kNever, and the Runtime uses none on the
  /// policy's behalf when it chooses and places victims.
  bool online = false;
};

}  // namespace sluice
