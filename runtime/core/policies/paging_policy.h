#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "sluice/policy.h"

namespace sluice::core {

/// Decides whom to evict, where to, and what to fetch next and when. Tiers are
/// numbered from 0, the fastest; of the last, where every page has its place, nothing is told.
/// Residency is told to the policy as it changes; it must be deterministic (no clock, no randomness
/// without a fixed seed).
///
/// Note [What is an access]
/// Replacement policies are written for references that hit or miss. Here pages come ahead of need,
/// are leased, cleaned in place, freed, and leave one after another while others are on their way.
/// So what happened is told apart from what may be evicted:
///   OnInsert, OnRemove  may be evicted from now on, or may not. A lease or a page-out that only
///                       cleans removes a page for a time; neither is a reason to forget it. The
///                       first OnInsert (or OnAccess) of a page not known to be in the tier is its
///                       arrival, be it by a fetch, by an eviction from above, or as a new page.
///   OnAccess            one reference: a lease is granted in the tier, or the page is read from it
///                       on its way up. The first after an arrival is the one the page came for (a
///                       fetch on demand arrives before its grant); the others are hits.
///   OnLeave             it is there no longer, and why. kVictim is told when the page starts to
///                       leave: only that is an eviction, which ghost lists remember. Should the
///                       page-out fail, or the page be wanted before it is over, it arrives again.
///   OnWant              whom room is being made for, before Victim is asked: some policies decide
///                       by whether that page left a while ago.
/// Victim is a question: it is also asked for what to clean ahead, or to compare, and its answer
/// need not be followed. A policy changes its state on what is told, not on being asked.
///
/// Threads: called from the core thread only. Blocks: never. Lifetime: it serves one Runtime, and
/// not another one afterwards, whose pages it would take for those that it knows.
class PagingPolicy {
 public:
  virtual ~PagingPolicy() = default;
  virtual std::string_view name() const = 0;
  /// Decides without knowing the schedule: it is told no next use, and none is used on its behalf
  /// when victims are chosen or placed. What is fetched ahead is another matter: with
  /// RuntimeOptions::prefetch_ops > 0 the ops within that window are fetched in their recorded
  /// order, and nothing that one of them needs is displaced for a later one.
  virtual bool online() const { return false; }

  /// A plan is made of every schedule that repeats, and decides when pages leave and come; the
  /// policy is asked where there is none yet, or what happens is not what was planned.
  virtual bool planned() const { return false; }

  /// The frames that pages may fill in `tier`: at the start, and when that changes.
  virtual void OnFrames(int tier, std::uint64_t frames) {
    (void)tier;
    (void)frames;
  }
  /// The recorded ops before `now` have been asked for.
  virtual void OnStep(Position now) { (void)now; }

  /// A page in `tier` may be evicted from now on (it arrived, or its last lease there ended);
  /// changed its facts; may not be evicted any more (it is leased, in motion or gone).
  virtual void OnInsert(int tier, const PageFacts& facts) = 0;
  virtual void OnChange(int tier, const PageFacts& facts) = 0;
  virtual void OnRemove(int tier, PageIndex page) = 0;

  /// One reference to a page in `tier`; it may be told before the page is ever inserted.
  virtual void OnAccess(int tier, PageIndex page) {
    (void)tier;
    (void)page;
  }
  /// A page that was inserted or accessed is no longer in `tier`; OnRemove came before. A freed
  /// page leaves every tier, also those where it is not.
  virtual void OnLeave(int tier, PageIndex page, Departure why) {
    (void)tier;
    (void)page;
    (void)why;
  }
  /// The next Victim of `tier` is asked for to make room for `page`; none: for no page that comes.
  /// Unless the policy is online() the answer may count for other pages too while nothing changes.
  virtual void OnWant(int tier, std::optional<PageIndex> page) {
    (void)tier;
    (void)page;
  }

  /// The next victim of `tier` among the inserted pages that `evictable` accepts; none when there
  /// is none. Any other answer stops the program: bytes would be lost.
  virtual std::optional<PageIndex> Victim(int tier,
                                          const std::function<bool(PageIndex)>& evictable) = 0;
  /// The same where only `pages` would do: a few of the inserted pages, at least one, in ascending
  /// order. Names one of them. Worth an implementation of its own where thousands of others are not
  /// gone through.
  virtual std::optional<PageIndex> VictimAmong(int tier, std::span<const PageIndex> pages) {
    return Victim(tier, [pages](PageIndex page) {
      return std::binary_search(pages.begin(), pages.end(), page);
    });
  }

  /// The same where only pages would do that, as the policy was last told, are free to leave:
  /// others need not be looked at. Not asked of an online policy.
  virtual std::optional<PageIndex> VictimToDrop(int tier,
                                                const std::function<bool(PageIndex)>& evictable) {
    return Victim(tier, evictable);
  }

  /// The same where only pages would do that, as the policy was last told, have to be written to
  /// leave and are used at `use_min` or later: others need not be looked at. For what is written
  /// ahead of need.
  virtual std::optional<PageIndex> VictimToWrite(int tier,
                                                 Position use_min,
                                                 const std::function<bool(PageIndex)>& evictable) {
    (void)use_min;
    return Victim(tier, evictable);
  }

  /// The tier a dirty victim goes to; what is not between `tier` + 1 and the page's lowest counts
  /// as the nearer of the two. Further than one tier it passes through a transit frame, if one is
  /// free, and is not written ahead of need.
  virtual int EvictTo(int tier, PageIndex page) {
    (void)page;
    return tier + 1;
  }

  /// Whether a page that is fetched or cleaned ahead, next used at `use`, may push out one next
  /// used at `victim_use`. As it is, nothing is displaced that is needed no later than what is
  /// fetched, and that lies within the window of ops that are fetched ahead anyway.
  virtual bool MayDisplace(Position use, Position victim_use) const { return use < victim_use; }

  /// What to page in ahead of need into `tier`, where it goes as soon as a frame is to be had, but
  /// not before the position given. Asked after every event, or several that came together, until
  /// it returns none; then the recorded order goes on (RuntimeOptions::prefetch_ops = 0 switches
  /// that off). A page that is advised again replaces the earlier advice. At most as many as a
  /// link's queue is deep are taken at once.
  virtual std::optional<FetchAdvice> NextFetch(int tier, Position now) {
    (void)tier;
    (void)now;
    return std::nullopt;
  }
};

}  // namespace sluice::core
