#include "runtime/core/policies.h"

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "runtime/core/core.h"

namespace sluice::core {

void LruPolicy::OnInsert(int tier, const PageFacts& facts) {
  Tier& t = tiers_[static_cast<std::size_t>(tier)];
  t.where[facts.page] = t.order.insert(t.order.end(), facts.page);
}

void LruPolicy::OnChange(int, const PageFacts&) {}

void LruPolicy::OnRemove(int tier, PageIndex page) {
  Tier& t = tiers_[static_cast<std::size_t>(tier)];
  const auto found = t.where.find(page);
  if (found == t.where.end()) return;
  t.order.erase(found->second);
  t.where.erase(found);
}

std::optional<PageIndex> LruPolicy::Victim(int tier,
                                           const std::function<bool(PageIndex)>& evictable) {
  for (PageIndex page : tiers_[static_cast<std::size_t>(tier)].order) {
    if (evictable(page)) return page;
  }
  return std::nullopt;
}

void MinPolicy::OnInsert(int tier, const PageFacts& facts) {
  Tier& t = tiers_[static_cast<std::size_t>(tier)];
  const Rank rank{facts.next_use, facts.free_to_leave, NextAge(), facts.page};
  t.where[facts.page] = rank;
  t.order.insert(rank);
}

void MinPolicy::OnChange(int tier, const PageFacts& facts) {
  Tier& t = tiers_[static_cast<std::size_t>(tier)];
  const auto found = t.where.find(facts.page);
  if (found == t.where.end()) return;
  t.order.erase(found->second);
  std::get<0>(found->second) = facts.next_use;
  std::get<1>(found->second) = facts.free_to_leave;
  t.order.insert(found->second);
}

void MinPolicy::OnRemove(int tier, PageIndex page) {
  Tier& t = tiers_[static_cast<std::size_t>(tier)];
  const auto found = t.where.find(page);
  if (found == t.where.end()) return;
  t.order.erase(found->second);
  t.where.erase(found);
}

std::optional<PageIndex> MinPolicy::Victim(int tier,
                                           const std::function<bool(PageIndex)>& evictable) {
  const Tier& t = tiers_[static_cast<std::size_t>(tier)];
  for (auto rank = t.order.rbegin(); rank != t.order.rend(); ++rank) {
    if (evictable(std::get<3>(*rank))) return std::get<3>(*rank);
  }
  return std::nullopt;
}

absl::StatusOr<std::shared_ptr<Policy>> CreatePolicy(std::string_view name) {
  if (name == "min") return std::make_shared<MinPolicy>();
  if (name == "lru") return std::make_shared<LruPolicy>();
  return absl::InvalidArgumentError(
      absl::StrCat("unknown policy '", base::ToAbsl(name), "': the known ones are min and lru"));
}

}  // namespace sluice::core
