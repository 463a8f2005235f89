#include "runtime/optim/step/fork_join.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "runtime/optim/step/part_update.h"
#include "sluice/optimizer.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using base::AllowedCpus;
using ::sluice::testing::IsOk;
using ::sluice::testing::RuntimeFixture;

/// Work of ForEach: runs in order, the threads, and the processors that these may use.
struct Done {
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  std::set<std::thread::id> threads;
  std::set<std::vector<int>> cpus;
};

Done RunOn(ForkJoin& join, std::size_t count, std::optional<std::size_t> node = std::nullopt) {
  Done done;
  base::Mutex mutex;
  join.ForEach(
      count,
      10,
      [&](std::size_t begin, std::size_t end) {
        const base::MutexLock lock(mutex);
        done.runs.emplace_back(begin, end);
        done.threads.insert(std::this_thread::get_id());
        done.cpus.insert(AllowedCpus());
      },
      node);
  std::sort(done.runs.begin(), done.runs.end());
  return done;
}

void ExpectCovers(const Done& done, std::size_t count) {
  std::size_t at = 0;
  for (const auto& [begin, end] : done.runs) {
    EXPECT_EQ(begin, at);
    EXPECT_TRUE(end % 10 == 0 || end == count);
    at = end;
  }
  EXPECT_EQ(at, count);
}

TEST(ForkJoinTest, OneNodeIsUpdatedByTheCallerAndOthersThatAreNotBound) {
  for (const std::vector<std::vector<int>>& nodes :
       {std::vector<std::vector<int>>(), std::vector<std::vector<int>>{{AllowedCpus()[0]}}}) {
    const auto join = ForkJoin::Create(3, nodes).value();
    EXPECT_FALSE(join->binds());
    const Done done = RunOn(*join, 95, 0);
    ExpectCovers(done, 95);
    EXPECT_EQ(done.runs.size(), 3U);
    EXPECT_TRUE(done.threads.contains(std::this_thread::get_id()));
    EXPECT_EQ(done.cpus, std::set{AllowedCpus()});
  }
}

TEST(ForkJoinTest, AThreadRunsOnTheProcessorsOfItsNode) {
  const std::vector<int> cpus = AllowedCpus();
  const std::vector<int> first = {cpus.front()}, second = {cpus.back()};
  const auto join = ForkJoin::Create(5, {first, second}).value();
  ASSERT_TRUE(join->binds());
  const Done of_first = RunOn(*join, 200, 0);
  ExpectCovers(of_first, 200);
  EXPECT_EQ(of_first.runs.size(), 2U);
  EXPECT_EQ(of_first.cpus, std::set{first});
  const Done of_second = RunOn(*join, 200, 1);
  ExpectCovers(of_second, 200);
  EXPECT_EQ(of_second.runs.size(), 3U);
  EXPECT_EQ(of_second.cpus, std::set{second});
  const Done of_all = RunOn(*join, 200);
  ExpectCovers(of_all, 200);
  EXPECT_EQ(of_all.runs.size(), 5U);
  for (const Done* done : {&of_first, &of_second, &of_all}) {
    EXPECT_FALSE(done->threads.contains(std::this_thread::get_id()));
  }
}

TEST(ForkJoinTest, FewerThreadsThanNodesAreNotBound) {
  const auto join = ForkJoin::Create(2, {{}, {}, {}}).value();
  EXPECT_FALSE(join->binds());
  ExpectCovers(RunOn(*join, 31, 2), 31);
}

/// Frames of three nodes, which one stands in for.
TEST(ForkJoinTest, NodesChangeNoBit) {
  for (const int threads : {1, 3, 7}) {
    SCOPED_TRACE(std::to_string(threads) + " threads");
    RuntimeFixture runtime;
    runtime.options.hbm_bytes = Bytes();
    runtime.hooks.memory_nodes.resize(3);
    runtime.Start();
    ASSERT_EQ(runtime->DramNodes().size(), 3U);
    PagedModel model(runtime,
                     {.groups = {{100'000}, {777, 5000}}, .optimizer = {.threads = threads}});
    for (int step = 1; step <= 3; ++step) {
      model.SetGradients(static_cast<std::uint64_t>(step));
      ASSERT_THAT(model.Step(), IsOk());
      model.ReferenceStep(step);
    }
    EXPECT_TRUE(model.Paged() == model.Reference());
  }
}

TEST(LeaseNodesTest, TellWhereEachFrameLies) {
  RuntimeFixture runtime;
  runtime.options.hbm_bytes = Bytes();
  runtime.hooks.memory_nodes.resize(2);
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 20 * kPage);
  const auto lease =
      runtime.Acquire({.tensor = tensor, .mode = AccessMode::kOverwrite, .tier = kDram0}).value();
  ASSERT_EQ(lease.Nodes().size(), 20U);
  // dram has 32 pages, half of them on each node.
  EXPECT_GE(std::count(lease.Nodes().begin(), lease.Nodes().end(), 0U), 4);
  EXPECT_GE(std::count(lease.Nodes().begin(), lease.Nodes().end(), 1U), 4);
  EXPECT_EQ(*std::max_element(lease.Nodes().begin(), lease.Nodes().end()), 1U);
}

TEST(NodeWithMostTest, IsWhereMostBytesLie) {
  RuntimeFixture runtime;
  runtime.options.hbm_bytes = Bytes();
  runtime.hooks.memory_nodes.resize(2);
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 30 * kPage);
  Op op = runtime->BeginOp({.name = "op"});
  std::vector<Access> accesses;
  for (std::uint64_t page = 0; page < 30; ++page) {
    accesses.push_back({.tensor = tensor, .range = {page * kPage, kPage}, .tier = kDram0});
  }
  std::vector<Lease> leases = op.AcquireAll(accesses).Take().value();
  std::vector<Lease> on[2];
  for (Lease& lease : leases) on[lease.Nodes()[0]].push_back(std::move(lease));
  ASSERT_GE(on[0].size(), 14U);
  ASSERT_GE(on[1].size(), 14U);
  EXPECT_EQ(NodeWithMost(on[0]), 0U);
  EXPECT_EQ(NodeWithMost(on[1]), 1U);
  on[1].push_back(std::move(on[0].front()));
  EXPECT_EQ(NodeWithMost(on[1]), 1U);
  EXPECT_EQ(NodeWithMost({}), 0U);
}

}  // namespace
}  // namespace sluice::optim
