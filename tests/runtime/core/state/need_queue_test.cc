#include "runtime/core/state/need_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace sluice::core {
namespace {

using Needs = std::vector<NeedQueue::Ordinal>;

constexpr NeedQueue::Group kBehindLink = NeedQueue::Up(1, 0);
constexpr NeedQueue::Group kForRoom = NeedQueue::Into(0);

/// Needs that a pass looks at if it closes no group.
Needs Seen(const NeedQueue& queue, NeedQueue::Pass pass = {}) {
  Needs needs;
  while (const auto need = queue.Next(&pass)) needs.push_back(*need);
  return needs;
}

/// The first `count` of the group that were passed over.
Needs PassedOver(const NeedQueue& queue,
                 const NeedQueue::Pass& pass,
                 NeedQueue::Group group,
                 std::size_t count = 9) {
  Needs needs;
  queue.AnyPassedOver(pass, group, [&](NeedQueue::Ordinal need) {
    needs.push_back(need);
    return needs.size() == count;
  });
  return needs;
}

/// All, in ascending order.
Needs All(const NeedQueue& queue) {
  Needs needs;
  queue.Any([&](NeedQueue::Ordinal need) {
    needs.push_back(need);
    return false;
  });
  std::sort(needs.begin(), needs.end());
  return needs;
}

NeedQueue Filled(const Needs& needs) {
  NeedQueue queue;
  for (const NeedQueue::Ordinal need : needs) queue.Add(need);
  return queue;
}

TEST(NeedQueueTest, NeedsComeInTheOrderOfAdding) {
  EXPECT_EQ(Seen(NeedQueue()), Needs());
  EXPECT_EQ(Seen(Filled({7, 2, 9})), (Needs{7, 2, 9}));
}

TEST(NeedQueueTest, ARemovedNeedIsGoneAndComesBackAsTheLast) {
  NeedQueue queue = Filled({7, 2, 9});
  queue.Remove(7);
  queue.Remove(4);    // page 4 was never there
  queue.Remove(100);  // nor was page 100
  EXPECT_EQ(Seen(queue), (Needs{2, 9}));
  queue.Add(7);
  EXPECT_EQ(Seen(queue), (Needs{2, 9, 7}));
}

TEST(NeedQueueTest, GroupsAreGoneThroughTogetherInOneOrder) {
  NeedQueue queue = Filled({1, 2, 3, 4, 5});
  queue.Move(4, kBehindLink);
  queue.Move(2, kBehindLink);
  queue.Move(3, kForRoom);
  EXPECT_EQ(Seen(queue), (Needs{1, 2, 3, 4, 5}));
}

TEST(NeedQueueTest, OtherNeedsOfAClosedGroupArePassedOver) {
  NeedQueue queue = Filled({1, 2, 3, 4, 5});
  for (const NeedQueue::Ordinal need : {2u, 4u, 5u}) queue.Move(need, kBehindLink);
  NeedQueue::Pass pass;
  EXPECT_EQ(queue.Next(&pass), 1u);
  EXPECT_EQ(queue.Next(&pass), 2u);
  EXPECT_EQ(PassedOver(queue, pass, kBehindLink), Needs());
  NeedQueue::Close(kBehindLink, &pass);
  EXPECT_EQ(Seen(queue, pass), Needs{3});
  EXPECT_EQ(PassedOver(queue, pass, kBehindLink), (Needs{4, 5}));
  EXPECT_EQ(PassedOver(queue, pass, kBehindLink, 1), Needs{4});
  EXPECT_EQ(PassedOver(queue, pass, kForRoom), Needs());
  EXPECT_EQ(Seen(queue), (Needs{1, 2, 3, 4, 5})) << "the next pass looks at all of them";
}

TEST(NeedQueueTest, AGroupStaysClosedFromWhereItWasClosedFirst) {
  NeedQueue queue = Filled({1, 2, 3});
  for (const NeedQueue::Ordinal need : {1u, 2u, 3u}) queue.Move(need, kForRoom);
  NeedQueue::Pass pass;
  queue.Next(&pass);
  NeedQueue::Close(kForRoom, &pass);
  pass.next = 100;
  NeedQueue::Close(kForRoom, &pass);
  EXPECT_EQ(PassedOver(queue, pass, kForRoom), (Needs{2, 3}));
}

TEST(NeedQueueTest, AChangedNeedIsLookedAtInItsPlaceWhateverItWaitedFor) {
  NeedQueue queue = Filled({1, 2, 3});
  for (const NeedQueue::Ordinal need : {1u, 2u, 3u}) queue.Move(need, kForRoom);
  NeedQueue::Pass pass;
  EXPECT_EQ(queue.Next(&pass), 1u);
  NeedQueue::Close(kForRoom, &pass);
  queue.Add(2);
  EXPECT_EQ(Seen(queue, pass), Needs{2});
  EXPECT_EQ(Seen(queue), (Needs{1, 2, 3}));
}

TEST(NeedQueueTest, EveryStepHasItsOwnGroup) {
  std::vector<NeedQueue::Group> groups{NeedQueue::kAlone};
  for (TierIndex t = 0; t < kTiersMax; ++t) {
    groups.push_back(NeedQueue::Into(t));
    groups.push_back(NeedQueue::Down(t));
    for (TierIndex wanted = 0; wanted < kTiersMax; ++wanted) {
      groups.push_back(NeedQueue::Up(t, wanted));
    }
  }
  std::sort(groups.begin(), groups.end());
  EXPECT_EQ(std::adjacent_find(groups.begin(), groups.end()), groups.end());
  EXPECT_EQ(groups.back() + 1u, NeedQueue::kGroups);
}

/// The queue as a plain list, in which each need knows its group.
class PlainQueue {
 public:
  void Add(NeedQueue::Ordinal need) {
    const auto found = Find(need);
    if (found == entries_.end()) {
      entries_.push_back({need, NeedQueue::kAlone});
    } else {
      found->group = NeedQueue::kAlone;
    }
  }
  void Remove(NeedQueue::Ordinal need) {
    const auto found = Find(need);
    if (found != entries_.end()) entries_.erase(found);
  }
  bool Move(NeedQueue::Ordinal need, NeedQueue::Group group) {
    const auto found = Find(need);
    if (found == entries_.end()) return false;
    found->group = group;
    return true;
  }
  /// Needs that a pass looks at if it closes `closed` at the group's first need.
  Needs SeenClosing(NeedQueue::Group closed) const {
    Needs needs;
    bool open = true;
    for (const Entry& entry : entries_) {
      if (entry.group != closed || open) needs.push_back(entry.need);
      if (entry.group == closed) open = false;
    }
    return needs;
  }
  NeedQueue::Group GroupOf(NeedQueue::Ordinal need) { return Find(need)->group; }

 private:
  struct Entry {
    NeedQueue::Ordinal need;
    NeedQueue::Group group;
  };
  std::vector<Entry>::iterator Find(NeedQueue::Ordinal need) {
    return std::find_if(
        entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.need == need; });
  }
  std::vector<Entry> entries_;
};

TEST(NeedQueueTest, RandomStepsMatchAPlainList) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    NeedQueue queue;
    PlainQueue plain;
    for (int step = 0; step < 60; ++step) {
      const auto need = static_cast<NeedQueue::Ordinal>(random() % 12);
      const auto group = static_cast<NeedQueue::Group>(random() % NeedQueue::kGroups);
      switch (random() % 4) {
        case 0:
        case 1:
          queue.Add(need);
          plain.Add(need);
          break;
        case 2:
          queue.Remove(need);
          plain.Remove(need);
          break;
        default:
          if (plain.Move(need, group)) queue.Move(need, group);
      }
      Needs seen;
      NeedQueue::Pass pass;
      while (const auto next = queue.Next(&pass)) {
        seen.push_back(*next);
        if (plain.GroupOf(*next) == group) NeedQueue::Close(group, &pass);
      }
      ASSERT_EQ(seen, plain.SeenClosing(group)) << "after step " << step;
      Needs all = Seen(queue);
      std::sort(all.begin(), all.end());
      ASSERT_EQ(All(queue), all) << "after step " << step;
    }
  }
}

}  // namespace
}  // namespace sluice::core
