#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "runtime/core/types.h"

namespace sluice::core {

/// The needs of one ticket that may have to be moved on, gone through in the order of adding. They
/// are neither ready nor under way, but for a few that have become so unnoticed. Needs whose pages
/// take the same step next are in one group. Once one of them finds that none can take the step,
/// the others are not looked at. So one of thousands before a full tier or link is looked at.
class NeedQueue {
 public:
  using Ordinal = std::uint32_t;  ///< number of the need in its ticket
  using Number = std::uint64_t;   ///< number in the order of adding
  using Group = std::uint8_t;

  static constexpr Group kAlone = 0;  ///< group of needs that have nothing in common with others
  /// Group of needs for a frame in `tier`, over no link.
  static constexpr Group Into(TierIndex tier) { return static_cast<Group>(1 + tier); }
  /// Group of needs that come from the tier above into `tier`, where they are wanted.
  static constexpr Group Down(TierIndex tier) { return static_cast<Group>(1 + kTiersMax + tier); }
  /// Group of needs that come from the tier below into `tier`, wanted there or further up.
  static constexpr Group Up(TierIndex tier, TierIndex wanted) {
    return static_cast<Group>(1 + kTiersMax * (2 + wanted) + tier);
  }
  static constexpr std::size_t kGroups = 1 + kTiersMax * (2 + std::size_t{kTiersMax});

  /// One time through the queue.
  struct Pass {
    Number next = 0;                          ///< first number that was not looked at
    std::uint32_t closed = 0;                 ///< a bit for each group
    std::array<Number, kGroups> closed_at{};  ///< number at which each group was closed
  };

  /// Adds the need. A need that is there keeps its place, and is looked at whatever it waited for.
  void Add(Ordinal need);
  /// Removes the need. Has no effect if it is not there.
  void Remove(Ordinal need);
  /// Moves the need to the group. REQUIRES: the need is there.
  void Move(Ordinal need, Group group);

  /// The next need that is in no closed group. The need stays in the queue.
  std::optional<Ordinal> Next(Pass* pass) const;
  /// Closes the group: the pass does not look at its other needs.
  static void Close(Group group, Pass* pass) {
    if (IsClosed(*pass, group)) return;
    pass->closed |= BitOf(group);
    pass->closed_at[group] = pass->next;
  }
  static bool IsClosed(const Pass& pass, Group group) { return (pass.closed & BitOf(group)) != 0; }
  /// Whether `found` is true of a need that the pass did not look at as its group was closed. Looks
  /// at such needs in order until it is.
  template <typename Found>
  bool AnyPassedOver(const Pass& pass, Group group, Found found) const {
    if (!IsClosed(pass, group)) return false;
    const auto& needs = groups_[group];
    const auto first = needs.lower_bound(pass.closed_at[group]);
    return std::any_of(first, needs.end(), [&](const auto& need) { return found(need.second); });
  }
  /// Whether `found` is true of any need. Looks at needs in no particular order.
  template <typename Found>
  bool Any(Found found) const {
    return std::any_of(groups_.begin(), groups_.end(), [&](const auto& needs) {
      return std::any_of(
          needs.begin(), needs.end(), [&](const auto& need) { return found(need.second); });
    });
  }
  bool Contains(Ordinal need) const { return need < places_.size() && places_[need].number != 0; }

 private:
  struct Membership {
    Number number = 0;  ///< number of the need; 0: not there
    Group group = kAlone;
  };

  static_assert(kGroups <= 32, "a word has a bit for each group");
  static constexpr std::uint32_t BitOf(Group group) { return std::uint32_t{1} << group; }

  std::array<absl::btree_map<Number, Ordinal>, kGroups> groups_;
  std::uint32_t used_ = 0;          ///< bits of groups that may have needs
  std::vector<Membership> places_;  ///< one per ordinal
  Number last_ = 0;
};

}  // namespace sluice::core
