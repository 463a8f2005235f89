#include "base/worker_pool.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::base {
namespace {

TEST(WorkerPoolTest, DestructionRunsEverySubmittedJob) {
  std::atomic<int> ran = 0;
  {
    WorkerPool pool({.threads = 2, .queue_capacity = 4});
    for (int i = 0; i < 1000; ++i) pool.Submit([&] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(WorkerPoolTest, DestructionDrainsJobsThatWaitBehindABlockedOne) {
  std::atomic<int> ran = 0;
  std::latch go(1);
  std::thread opener;
  {
    WorkerPool pool({.threads = 1, .queue_capacity = 64});
    pool.Submit([&] { go.wait(); });
    for (int i = 0; i < 50; ++i) pool.Submit([&] { ++ran; });
    EXPECT_EQ(ran, 0);
    opener = std::thread([&] { go.count_down(); });
  }
  opener.join();
  EXPECT_EQ(ran, 50);
}

TEST(WorkerPoolTest, OneThreadRunsJobsInOrder) {
  std::vector<int> order;
  {
    WorkerPool pool({.threads = 1});
    for (int i = 0; i < 100; ++i) pool.Submit([&order, i] { order.push_back(i); });
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(WorkerPoolTest, ASubmitBeyondTheCapacityWaitsForRoom) {
  std::latch busy(1), go(1);
  std::atomic<bool> opened = false;
  bool room_first = false;
  WorkerPool pool({.threads = 1, .queue_capacity = 1});
  pool.Submit([&] {
    busy.count_down();
    go.wait();
  });
  busy.wait();
  pool.Submit([] {});
  std::thread producer([&] {
    pool.Submit([] {});
    room_first = opened;
  });
  opened = true;
  go.count_down();
  producer.join();
  EXPECT_TRUE(room_first);
}

TEST(WorkerPoolDeathTest, NeedsRoomForOneJob) {
  EXPECT_DEATH(WorkerPool({.queue_capacity = 0}), "a worker pool queues at least one job");
}

TEST(WorkerPoolTest, JobsOfEachSubmitterRunInItsOrder) {
  constexpr int kSubmitters = 4, kJobsEach = 2000;
  std::vector<int> next(kSubmitters, 0);
  std::atomic<int> out_of_order = 0;
  {
    WorkerPool pool({.threads = 1, .queue_capacity = 8});
    std::vector<std::thread> submitters;
    for (int s = 0; s < kSubmitters; ++s) {
      submitters.emplace_back([&, s] {
        for (int i = 0; i < kJobsEach; ++i) {
          pool.Submit(
              [&, s, i] { out_of_order += next[static_cast<std::size_t>(s)]++ == i ? 0 : 1; });
        }
      });
    }
    for (std::thread& submitter : submitters) submitter.join();
  }
  EXPECT_EQ(out_of_order, 0);
  EXPECT_EQ(next, std::vector<int>(kSubmitters, kJobsEach));
}

TEST(WorkerPoolTest, JobsRunBesideEachOther) {
  // Each job waits for the other, so this only ends when two threads run them.
  std::latch both(2);
  WorkerPool pool({.threads = 2});
  for (int i = 0; i < 2; ++i) pool.Submit([&] { both.arrive_and_wait(); });
  both.wait();
  EXPECT_TRUE(both.try_wait());
}

TEST(WorkerPoolTest, AJobIsDestroyedOnceItHasRun) {
  auto token = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = token;
  std::latch first_gone(1);
  std::atomic<bool> alive_after = true;
  WorkerPool pool({.threads = 1});
  pool.Submit([held = std::move(token)] {});
  pool.Submit([&] {
    alive_after = !watch.expired();
    first_gone.count_down();
  });
  first_gone.wait();
  EXPECT_FALSE(alive_after);
}

TEST(WorkerPoolTest, ThreadsCarryTheNameCutToFifteenCharacters) {
  std::string name(16, '\0');
  {
    WorkerPool pool({.threads = 1, .name = "sluice-a-rather-long-name"});
    pool.Submit([&] { pthread_getname_np(pthread_self(), name.data(), name.size()); });
  }
  EXPECT_STREQ(name.c_str(), "sluice-a-rather");
}

/// The kernel's sched_attr of a thread of this priority; a size of 0: the system call is refused.
struct SchedAttr {
  std::uint32_t size = 0;
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};
SchedAttr AttributesOf(ThreadPriority priority) {
  SchedAttr found;
  std::thread([&] {
    SetUpThread("test-priority", {}, priority);
    syscall(SYS_sched_getattr, 0, &found, sizeof(found), 0);
  }).join();
  return found;
}

TEST(WorkerPoolTest, BulkThreadsGiveWay) {
  const int usual = getpriority(PRIO_PROCESS, 0);
  int bulk = 0;
  {
    WorkerPool pool({.threads = 1});
    pool.Submit([&] { bulk = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); });
  }
  EXPECT_EQ(bulk, std::max(usual, 5));
}

TEST(WorkerPoolTest, PromptThreadsHaveShortSlicesThatTheirOwnThreadsHaveNot) {
  const SchedAttr usual = AttributesOf(ThreadPriority::kUsual);
  if (usual.policy != SCHED_OTHER || usual.runtime == 0) {
    GTEST_SKIP() << "slices cannot be asked for here: the kernel is below 6.12, or refuses";
  }
  const SchedAttr prompt = AttributesOf(ThreadPriority::kPrompt);
  EXPECT_EQ(prompt.runtime, 100'000U);
  EXPECT_EQ(prompt.nice, usual.nice);
  EXPECT_EQ(prompt.policy, usual.policy);
  SchedAttr child;
  std::thread([&] {
    SetUpThread("test-priority", {}, ThreadPriority::kPrompt);
    child = AttributesOf(ThreadPriority::kUsual);
  }).join();
  EXPECT_EQ(child.runtime, usual.runtime);
}

TEST(WorkerPoolTest, ThreadsKeepToTheProcessorsGiven) {
  cpu_set_t allowed;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof(allowed), &allowed), 0);
  int first = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(first), &allowed)) ++first;
  cpu_set_t seen;
  CPU_ZERO(&seen);
  {
    WorkerPool pool({.threads = 1, .cpus = {first}});
    pool.Submit([&] { pthread_getaffinity_np(pthread_self(), sizeof(seen), &seen); });
  }
  EXPECT_EQ(CPU_COUNT(&seen), 1);
  EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(first), &seen));
}

}  // namespace
}  // namespace sluice::base
