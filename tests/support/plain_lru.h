#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "sluice/policy.h"

namespace sluice::testing {

/// Evicts the page that was used longest ago: a policy as a program would write one.
class PlainLru : public Policy {
 public:
  void OnArrive(int tier, const PageFacts& facts) override { order_[tier].push_back(facts.page); }
  void OnUse(int tier, PageIndex page) override {
    std::erase(order_[tier], page);
    order_[tier].push_back(page);
  }
  void OnLeave(int tier, PageIndex page, Departure) override { std::erase(order_[tier], page); }
  std::optional<PageIndex> Victim(const VictimRequest& request,
                                  const std::function<bool(PageIndex)>& evictable) override {
    const std::vector<PageIndex>& order = order_[request.tier];
    const auto found = std::ranges::find_if(order, evictable);
    return found == order.end() ? std::nullopt : std::optional(*found);
  }

 private:
  std::map<int, std::vector<PageIndex>> order_;
};

}  // namespace sluice::testing
