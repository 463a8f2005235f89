#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "runtime/core/types.h"

namespace sluice::core {

/// The needs of one ticket that are neither ready nor under way, gone through in the order in which
/// they were added. Those that were found to wait for the same thing stand together, and once one
/// of them waits for it in vain the others are not looked at: of thousands in a full tier, or
/// behind a full link, one is.
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
  /// The first of the group that its closing kept from being looked at, up to `count`.
  std::vector<Ordinal> PassedOver(const Pass& pass, Group group, std::size_t count) const;
  bool Contains(Ordinal need) const { return need < places_.size() && places_[need].number != 0; }
  /// All, in no particular order.
  std::vector<Ordinal> All() const;

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
