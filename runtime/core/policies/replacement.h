#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/policies/paging_policy.h"
#include "runtime/core/types.h"

namespace sluice::core {

using Evictable = std::function<bool(PageIndex)>;

/// An online replacement algorithm for one tier, in the words of the literature. OnlinePolicy calls
/// it; see Note [What is an access] of paging_policy.h.
class Replacement {
 public:
  virtual ~Replacement() = default;

  /// Tells the number of frames of the tier, at first and when it changes.
  virtual void Resize(std::uint64_t frames) { (void)frames; }
  /// Tells that the page has arrived. It is hidden at first.
  virtual void Come(PageIndex page) = 0;
  /// Tells that the page is used. `first`: by the op that it came for.
  virtual void Use(PageIndex page, bool first) = 0;
  /// Tells that the page may be evicted from now on, or may not for a time.
  virtual void Show(PageIndex page, bool shown) = 0;
  /// Tells whether the page would have to be written to leave.
  virtual void SetDirty(PageIndex page, bool dirty) {
    (void)page;
    (void)dirty;
  }
  /// Tells that the page is gone. `victim`: it was evicted, so it may be remembered.
  virtual void Leave(PageIndex page, bool victim) = 0;
  /// Tells that the index of a page that has left will mean another page. The policy must remember
  /// nothing of it.
  virtual void Forget(PageIndex page) { (void)page; }
  /// The page to evict for `incoming`. The call is only a question: Leave does what follows from
  /// the answer.
  virtual std::optional<PageIndex> Victim(std::optional<PageIndex> incoming,
                                          const Evictable& evictable) = 0;
};

using ReplacementFactory = std::function<std::unique_ptr<Replacement>()>;

/// A policy that decides without the schedule, by one Replacement per tier.
class OnlinePolicy final : public PagingPolicy {
 public:
  OnlinePolicy(std::string_view name, const ReplacementFactory& factory);

  std::string_view name() const override { return name_; }
  bool online() const override { return true; }
  void OnFrames(int tier, std::uint64_t frames) override;
  void OnInsert(int tier, const PageFacts& facts) override;
  void OnChange(int tier, const PageFacts& facts) override;
  void OnRemove(int tier, PageIndex page) override;
  void OnAccess(int tier, PageIndex page) override;
  void OnLeave(int tier, PageIndex page, Departure why) override;
  void OnWant(int tier, std::optional<PageIndex> page) override;
  std::optional<PageIndex> Victim(int tier, const Evictable& evictable) override;

 private:
  struct Replaced {
    std::unique_ptr<Replacement> replacement;
    /// Pages in the tier, each with true if it has been used since it came.
    absl::flat_hash_map<PageIndex, bool> used;
    std::optional<PageIndex> incoming;
  };

  Replaced& tier(int index) { return tiers_[static_cast<std::size_t>(index)]; }
  /// The page's entry, which is made when the page has just come.
  static bool& Resident(Replaced& tier, PageIndex page);

  std::string name_;
  std::vector<Replaced> tiers_;
};

}  // namespace sluice::core
