#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "sluice/policy.h"

namespace sluice::core {

/// Decides which page to evict, and which to fetch next and when. Tiers are numbered
/// from 0, the fastest. The policy hears nothing of the last tier, where every page has its place.
/// The core tells the policy of each change of residency. A policy must be deterministic (no clock,
/// no randomness without a fixed seed).
///
/// Note [What is an access]
/// Replacement policies are written for references that hit or miss. Here pages come ahead of need,
/// are leased, cleaned in place, freed, and leave one after another while others are on their way.
/// So the core tells events apart from the set of evictable pages:
///   OnInsert, OnRemove  the page may be evicted from now on, or not. A lease removes a page for a
///                       time, as does a page-out that only cleans. Neither is a reason to forget
///                       it. The first OnInsert (or OnAccess) of a page not known to be in the tier
///                       is its arrival, be it by a fetch, by an eviction from above, or as a new
///                       page.
///   OnAccess            one reference: a lease is granted in the tier, or the page is read from it
///                       on its way up. The first after an arrival is the one the page came for (a
///                       fetch on demand arrives before its grant); the others are hits.
///   OnLeave             the page has left, and why. kVictim is told when the page starts to
///                       leave: only that is an eviction, which ghost lists remember. Should the
///                       page-out fail, or the page be wanted before it is over, it arrives again.
///   OnWant              the page that room is being made for, told before Victim is asked: some
///                       policies decide by whether that page left a while ago.
/// Victim is a question: the core also asks for pages to clean ahead, or to compare, and need not
/// follow the answer. A policy changes its state on events, not on questions.
///
/// Threads: called from the core thread only. Blocks: never. Lifetime: a policy serves one Runtime,
/// and not another one afterwards: it would take the pages of that one for those that it knows.
class PagingPolicy {
 public:
  virtual ~PagingPolicy() = default;
  virtual std::string_view name() const = 0;
  /// Whether the policy decides without the schedule: it is told no next use, and the core uses
  /// none when victims are chosen or placed. Fetches ahead are another matter. With
  /// RuntimeOptions::prefetch_ops > 0 the pages of ops within that window are fetched in their
  /// recorded order. No page that one of them needs is displaced for a later op.
  virtual bool online() const { return false; }

  /// Whether plans are made of schedules that repeat, and decide when pages leave and come. The
  /// core then asks the policy where there is no plan yet, or the program diverges from it.
  virtual bool planned() const { return false; }

  /// Tells the number of frames that pages may fill in `tier`, at the start and when it changes.
  virtual void OnFrames(int tier, std::uint64_t frames) {
    (void)tier;
    (void)frames;
  }
  /// Tells that the recorded ops before `now` have been asked for.
  virtual void OnStep(Position now) { (void)now; }

  /// Three events of a page in `tier`:
  /// - OnInsert: the page may be evicted from now on, as it arrived or its last lease there ended.
  /// - OnChange: the facts of the page changed.
  /// - OnRemove: the page may not be evicted any more, as it is leased, in motion or gone.
  virtual void OnInsert(int tier, const PageFacts& facts) = 0;
  virtual void OnChange(int tier, const PageFacts& facts) = 0;
  virtual void OnRemove(int tier, PageIndex page) = 0;

  /// Tells one reference to a page in `tier`. The reference may come before the page is ever
  /// inserted.
  virtual void OnAccess(int tier, PageIndex page) {
    (void)tier;
    (void)page;
  }
  /// Tells that a page that was inserted or accessed is no longer in `tier`. OnRemove came before.
  /// A freed page leaves every tier, also those where it is not.
  virtual void OnLeave(int tier, PageIndex page, Departure why) {
    (void)tier;
    (void)page;
    (void)why;
  }
  /// Tells that the next Victim of `tier` makes room for `page`; none: for no page that comes.
  /// Unless the policy is online(), the answer may count for other pages too while nothing changes.
  virtual void OnWant(int tier, std::optional<PageIndex> page) {
    (void)tier;
    (void)page;
  }

  /// The next victim of `tier` among the inserted pages that `evictable` accepts; none when it
  /// accepts none. Any other answer stops the program: bytes would be lost.
  virtual std::optional<PageIndex> Victim(int tier,
                                          const std::function<bool(PageIndex)>& evictable) = 0;
  /// The next victim among `pages`: a few of the inserted pages, at least one, in ascending order.
  /// Returns one of them. An implementation of its own pays if it need not go through thousands of
  /// other pages.
  virtual std::optional<PageIndex> VictimAmong(int tier, std::span<const PageIndex> pages) {
    return Victim(tier, [pages](PageIndex page) {
      return std::binary_search(pages.begin(), pages.end(), page);
    });
  }

  /// The next victim among pages that are free to leave, as the policy was last told. The policy
  /// need not look at others. The core does not ask an online policy.
  virtual std::optional<PageIndex> VictimToDrop(int tier,
                                                const std::function<bool(PageIndex)>& evictable) {
    return Victim(tier, evictable);
  }

  /// The next page to write ahead of need. As the policy was last told, such a page has to be
  /// written to leave, and is used at `use_min` or later. The policy need not look at others.
  virtual std::optional<PageIndex> VictimToWrite(int tier,
                                                 Position use_min,
                                                 const std::function<bool(PageIndex)>& evictable) {
    (void)use_min;
    return Victim(tier, evictable);
  }

  /// The next page to page in ahead of need into `tier`. It goes there as soon as a frame is to be
  /// had, but not before the position given. The core asks after every event, or several that came
  /// together, until the answer is none. Then the recorded order goes on
  /// (RuntimeOptions::prefetch_ops = 0 switches that off). A page that is advised again replaces
  /// the earlier advice. The core takes at most as many at once as a link's queue is deep.
  virtual std::optional<FetchAdvice> NextFetch(int tier, Position now) {
    (void)tier;
    (void)now;
    return std::nullopt;
  }
};

}  // namespace sluice::core
