#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "runtime/core/types.h"

namespace sluice::core {

/// The needs of one ticket that may have to be moved on (those that are neither ready nor under
/// way, and a few that have come to be so unnoticed), gone through in the order of adding. Those
/// that were found to wait for the same thing stand together, and once one of them waits for it in
/// vain the others are not looked at: of thousands in a full tier, or behind a full link, one is.
class NeedQueue {
 public:
  using Ordinal = std::uint32_t;  ///< in the ticket
  using Number = std::uint64_t;   ///< of the order of adding
  using Group = std::uint8_t;

  static constexpr Group kNothing = 0;  ///< of those that wait for nothing that others wait for
  static constexpr Group LinkInto(TierIndex tier) { return static_cast<Group>(1 + tier); }
  static constexpr Group RoomIn(TierIndex tier) { return static_cast<Group>(1 + kTiersMax + tier); }

  /// One time through the queue.
  struct Pass {
    Number next = 0;  ///< those before it have been looked at
    /// Where each group was closed.
    std::array<std::optional<Number>, 1 + 2 * kTiersMax> closed;
  };

  /// Adds the need; one that is there is looked at in its place, whatever it waited for.
  void Add(Ordinal need);
  /// No effect on one that is not there.
  void Remove(Ordinal need);
  /// REQUIRES: it is there.
  void Move(Ordinal need, Group group);

  /// The next that stands in no closed group; it stays in the queue.
  std::optional<Ordinal> Next(Pass* pass) const;
  /// The others of the group are not looked at in this pass.
  static void Close(Group group, Pass* pass) {
    if (!pass->closed[group].has_value()) pass->closed[group] = pass->next;
  }
  /// Whether `found` is true of one that the closing of the group kept from being looked at; they
  /// are gone through in order until it is.
  template <typename Found>
  bool AnyPassedOver(const Pass& pass, Group group, Found found) const {
    if (!pass.closed[group].has_value()) return false;
    const auto& needs = groups_[group];
    return std::any_of(needs.lower_bound(*pass.closed[group]), needs.end(), [&](const auto& need) {
      return found(need.second);
    });
  }
  /// The same of all, in no particular order.
  template <typename Found>
  bool Any(Found found) const {
    return std::any_of(groups_.begin(), groups_.end(), [&](const auto& needs) {
      return std::any_of(
          needs.begin(), needs.end(), [&](const auto& need) { return found(need.second); });
    });
  }
  bool Contains(Ordinal need) const { return need < places_.size() && places_[need].number != 0; }

 private:
  struct Place {
    Number number = 0;  ///< 0: not there
    Group group = kNothing;
  };

  std::array<absl::btree_map<Number, Ordinal>, 1 + 2 * kTiersMax> groups_;
  std::vector<Place> places_;  ///< by ordinal
  Number last_ = 0;
};

}  // namespace sluice::core
