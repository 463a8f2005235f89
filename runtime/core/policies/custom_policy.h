#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/policies/paging_policy.h"
#include "runtime/core/types.h"

namespace sluice::core {

/// A user's Policy behind the core's interface. The adapter keeps the Policy's view of pages apart
/// from the set of evictable ones.
class AdaptedPolicy final : public PagingPolicy {
 public:
  AdaptedPolicy(std::string_view name, bool online, std::unique_ptr<Policy> policy)
      : name_(name), online_(online), policy_(std::move(policy)) {}

  std::string_view name() const override { return name_; }
  bool online() const override { return online_; }
  void OnFrames(int tier, std::uint64_t frames) override { At(tier).frames = frames; }
  void OnStep(Position now) override { now_ = now; }
  void OnInsert(int tier, const PageFacts& facts) override;
  void OnChange(int tier, const PageFacts& facts) override;
  void OnRemove(int tier, PageIndex page) override;
  void OnAccess(int tier, PageIndex page) override;
  void OnLeave(int tier, PageIndex page, Departure why) override;
  void OnWant(int tier, std::optional<PageIndex> page) override { At(tier).incoming = page; }
  std::optional<PageIndex> Victim(int tier,
                                  const std::function<bool(PageIndex)>& evictable) override;
  std::optional<FetchAdvice> NextFetch(int tier, Position now) override {
    return policy_->NextFetch(tier, now);
  }

 private:
  struct Resident {
    PageFacts facts;
    bool inserted = false;  ///< whether the core may evict it now
  };
  struct TierPages {
    std::uint64_t frames = 0;
    std::optional<PageIndex> incoming;
    absl::flat_hash_map<PageIndex, Resident> pages;
  };

  TierPages& At(int tier) { return tiers_[static_cast<std::size_t>(tier)]; }
  /// Tells the policy of the page's arrival, or of new facts.
  Resident& Tell(int tier, const PageFacts& facts);

  const std::string name_;
  const bool online_;
  const std::unique_ptr<Policy> policy_;
  std::array<TierPages, kTiersMax> tiers_;
  Position now_ = 0;
};

}  // namespace sluice::core
