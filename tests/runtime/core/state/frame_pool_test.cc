#include "runtime/core/state/frame_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace sluice::core {
namespace {

TEST(FramePoolTest, PreferredFramesComeFirstThenUnusedOnesThenTheLastGiven) {
  FramePool pool(4);
  EXPECT_EQ(pool.Take(10), 0u);
  EXPECT_EQ(pool.Take(11, 2), 2u);
  EXPECT_EQ(pool.Take(12, 2), 3u);
  EXPECT_EQ(pool.Take(13), 1u);
  EXPECT_EQ(pool.free_count(), 0u);
  for (const FrameIndex frame : {2u, 0u, 3u}) pool.Give(frame);
  EXPECT_EQ(pool.Take(14, 0), 0u);
  EXPECT_EQ(pool.Take(15), 3u);
  pool.Give(3);
  EXPECT_EQ(pool.Take(16, 0), 2u);
  EXPECT_EQ(pool.owner(2), 16u);
}

TEST(FramePoolTest, FramesBeyondTheLimitAreNotPreferred) {
  FramePool pool(4);
  pool.SetLimit(2);
  EXPECT_EQ(pool.Take(1, 3), 1u);
  EXPECT_EQ(pool.Take(2, kNoFrame), 0u);
  pool.SetLimit(4);
  EXPECT_EQ(pool.Take(3, 3), 3u);
  pool.SetLimit(2);
  pool.Give(3);
  EXPECT_EQ(pool.free_count(), 0u);
  pool.SetLimit(4);
  EXPECT_EQ(pool.free_count(), 2u);
}

TEST(FramePoolTest, TheFrameWhosePageComesBackLastIsTaken) {
  FramePool pool(4, FrameOrder::kByReturn);
  for (const FrameIndex frame : {0u, 1u, 2u, 3u}) EXPECT_EQ(pool.Take(frame), frame);
  pool.Give(2, 30);
  pool.Give(0, 20);
  pool.Give(3, 40);
  pool.Give(1, 40);
  EXPECT_EQ(pool.Take(10, 0), 0u) << "the preferred one";
  EXPECT_EQ(pool.Take(11, 0), 3u) << "the last to return, and free for longest";
  EXPECT_EQ(pool.Take(12), 1u);
  EXPECT_EQ(pool.Take(13, kNoFrame), 2u);
  pool.Give(2);
  pool.Give(1, kNever - 1);
  EXPECT_EQ(pool.Take(14), 2u) << "nobody returns there";
}

TEST(FramePoolTest, APageTakesTheFrameThatIsWantedSoonestAfterIt) {
  FramePool pool(3, FrameOrder::kByReturn);
  for (const FrameIndex frame : {0u, 1u, 2u}) EXPECT_EQ(pool.Take(frame), frame);
  pool.Give(0, 20);
  pool.Give(1, 40);
  pool.Give(2, 30);
  EXPECT_EQ(pool.Take(10, kNoFrame, 25), 2u);
  EXPECT_EQ(pool.Take(11, kNoFrame, 41), 1u) << "too soon, but the latest";
  EXPECT_EQ(pool.Take(12, kNoFrame, 20), 0u);
}

TEST(FramePoolTest, FramesByReturnAreThoseOfAPlainSearch) {
  constexpr unsigned kSeed = 23;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  struct Free {
    FrameIndex frame;
    Position returns;
  };
  std::minstd_rand generator(kSeed);
  const auto random = [&] { return static_cast<unsigned>(generator()); };
  FramePool pool(12, FrameOrder::kByReturn);
  std::vector<Free> free;  ///< frames in the order of becoming free
  std::vector<FrameIndex> used;
  for (FrameIndex frame = 0; frame < 12; ++frame) free.push_back({frame, kNever});
  for (int i = 0; i < 5000; ++i) {
    if (random() % 2 == 0 && !free.empty()) {
      const FrameIndex preferred = random() % 12;
      auto found = std::find_if(
          free.begin(), free.end(), [&](const Free& one) { return one.frame == preferred; });
      const Position leaves = random() % 7;
      if (found == free.end()) {
        // Frames that come back too soon are the last choice, the latest of them first.
        const auto rank = [&](const Free& one) {
          return std::pair(one.returns < leaves,
                           one.returns < leaves ? kNever - one.returns : one.returns);
        };
        found = std::min_element(free.begin(), free.end(), [&](const Free& a, const Free& b) {
          return rank(a) < rank(b);
        });
      }
      ASSERT_EQ(pool.Take(7, preferred, leaves), found->frame);
      used.push_back(found->frame);
      free.erase(found);
    } else if (!used.empty()) {
      const std::size_t which = random() % used.size();
      const Position returns = random() % 5;
      pool.Give(used[which], returns);
      free.push_back({used[which], returns});
      used.erase(used.begin() + static_cast<std::ptrdiff_t>(which));
    }
    ASSERT_EQ(pool.free_count(), free.size());
  }
}

/// A stack that is searched.
struct PlainPool {
  FrameIndex Take(FrameIndex preferred) {
    auto found = std::find(free.begin(), free.end(), preferred);
    if (found == free.end()) found = preferred == kNoFrame ? free.end() - 1 : free.begin();
    const FrameIndex frame = *found;
    free.erase(found);
    used.push_back(frame);
    return frame;
  }
  void Give(std::size_t which) {
    if (used[which] < limit) free.push_back(used[which]);
    used.erase(used.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void SetLimit(FrameIndex frames) {
    limit = frames;
    free.clear();
    for (FrameIndex i = frames; i > 0; --i) {
      if (std::find(used.begin(), used.end(), i - 1) == used.end()) free.push_back(i - 1);
    }
  }

  FrameIndex limit = 0;
  std::vector<FrameIndex> free;
  std::vector<FrameIndex> used;
};

TEST(FramePoolTest, DoesWhatAPlainStackDoes) {
  constexpr unsigned kSeed = 17;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::minstd_rand generator(kSeed);
  const auto random = [&] { return static_cast<unsigned>(generator()); };
  FramePool pool(12);
  PlainPool plain;
  plain.SetLimit(12);
  for (int i = 0; i < 5000; ++i) {
    const unsigned what = random() % 20;
    if (what == 0) {
      const FrameIndex limit = random() % 13;
      pool.SetLimit(limit);
      plain.SetLimit(limit);
    } else if (what < 11 && !plain.free.empty()) {
      const FrameIndex preferred = random() % 3 == 0 ? kNoFrame : random() % 12;
      ASSERT_EQ(pool.Take(7, preferred), plain.Take(preferred));
    } else if (!plain.used.empty()) {
      const std::size_t which = random() % plain.used.size();
      pool.Give(plain.used[which]);
      plain.Give(which);
    }
    ASSERT_EQ(pool.free_count(), plain.free.size());
    ASSERT_EQ(pool.used(), plain.used.size());
  }
}

}  // namespace
}  // namespace sluice::core
