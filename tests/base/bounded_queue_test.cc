#include "base/bounded_queue.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::base {
namespace {

TEST(BoundedQueueTest, KeepsOrder) {
  BoundedQueue<int> queue(3);
  for (const int item : {1, 2, 3}) EXPECT_TRUE(queue.Push(item));
  for (const int item : {1, 2, 3}) {
    int out = 0;
    ASSERT_TRUE(queue.Pop(&out));
    EXPECT_EQ(out, item);
  }
}

TEST(BoundedQueueTest, ClosedQueueRefusesPushesAndDrains) {
  BoundedQueue<int> queue(4);
  ASSERT_TRUE(queue.Push(1));
  ASSERT_TRUE(queue.Push(2));
  queue.Close();
  EXPECT_FALSE(queue.Push(3));
  int out = 0;
  EXPECT_TRUE(queue.Pop(&out));
  EXPECT_EQ(out, 1);
  EXPECT_TRUE(queue.Pop(&out));
  EXPECT_EQ(out, 2);
  EXPECT_FALSE(queue.Pop(&out));
}

TEST(BoundedQueueTest, HoldsMoveOnlyItems) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  ASSERT_TRUE(queue.Push(std::make_unique<int>(5)));
  std::unique_ptr<int> out;
  ASSERT_TRUE(queue.Pop(&out));
  EXPECT_EQ(*out, 5);
}

TEST(BoundedQueueTest, CloseWakesABlockedConsumer) {
  BoundedQueue<int> queue(1);
  bool popped = true;
  std::thread consumer([&] {
    int out = 0;
    popped = queue.Pop(&out);
  });
  queue.Close();
  consumer.join();
  EXPECT_FALSE(popped);
}

TEST(BoundedQueueTest, CloseWakesABlockedProducer) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.Push(1));
  bool pushed = true;
  std::thread producer([&] { pushed = queue.Push(2); });
  queue.Close();
  producer.join();
  EXPECT_FALSE(pushed);
  int out = 0;
  EXPECT_TRUE(queue.Pop(&out));
  EXPECT_FALSE(queue.Pop(&out)) << "what waited for room is not queued";
}

TEST(BoundedQueueTest, APushBeyondTheCapacityWaitsForRoom) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.Push(1));
  std::atomic<bool> popped = false;
  bool room_first = false;
  std::thread producer([&] {
    EXPECT_TRUE(queue.Push(2));
    room_first = popped;
  });
  popped = true;
  int out = 0;
  ASSERT_TRUE(queue.Pop(&out));
  producer.join();
  EXPECT_TRUE(room_first);
}

TEST(BoundedQueueDeathTest, NeedsRoomForOneItem) {
  EXPECT_DEATH(BoundedQueue<int>(0), "a bounded queue holds at least one item");
}

constexpr int kProducers = 4;
constexpr int kItemsEach = 2000;
constexpr std::size_t kCapacity = 8;

std::vector<std::thread> StartProducers(BoundedQueue<std::pair<int, int>>& queue) {
  std::vector<std::thread> producers;
  for (int producer = 0; producer < kProducers; ++producer) {
    producers.emplace_back([&queue, producer] {
      for (int i = 0; i < kItemsEach; ++i) EXPECT_TRUE(queue.Push({producer, i}));
    });
  }
  return producers;
}

void ExpectEachProducersOrder(const std::vector<std::pair<int, int>>& received) {
  ASSERT_EQ(received.size(), static_cast<std::size_t>(kProducers * kItemsEach));
  std::vector<int> next(kProducers, 0);
  for (const auto& [producer, item] : received) {
    EXPECT_EQ(item, next[static_cast<std::size_t>(producer)]++);
  }
}

TEST(BoundedQueueThreadsTest, PopLosesNothing) {
  BoundedQueue<std::pair<int, int>> queue(kCapacity);
  std::vector<std::thread> producers = StartProducers(queue);
  std::vector<std::pair<int, int>> received;
  for (int i = 0; i < kProducers * kItemsEach; ++i) {
    std::pair<int, int> item;
    ASSERT_TRUE(queue.Pop(&item));
    received.push_back(item);
  }
  for (std::thread& producer : producers) producer.join();
  ExpectEachProducersOrder(received);
}

}  // namespace
}  // namespace sluice::base
