#include "numa/topology.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/synthetic_topology.h"

namespace sluice::numa {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TopologyTest, ReadsTwoNodesFromADescription) {
  const auto topology = testing::SyntheticTopology("numa:2 core:4 pu:1");
  ASSERT_TRUE(topology.ok()) << topology.status();
  ASSERT_EQ(topology->nodes.size(), 2u);
  EXPECT_EQ(topology->nodes[0].index, 0);
  EXPECT_THAT(topology->nodes[0].cpus, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(topology->nodes[1].index, 1);
  EXPECT_THAT(topology->nodes[1].cpus, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(topology->cores, 8);
  EXPECT_THAT(topology->cpus, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(TopologyTest, ReadsPackagesCachesThreadsAndMemory) {
  const auto topology =
      testing::SyntheticTopology("pack:2 [numa(memory=4GB)] l3:1(size=32MB) core:2 pu:2");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->packages, 2);
  EXPECT_EQ(topology->cores, 4);
  EXPECT_EQ(topology->cpus.size(), 8u);
  ASSERT_EQ(topology->nodes.size(), 2u);
  EXPECT_EQ(topology->nodes[1].memory_bytes, 4'000'000'000u);
  ASSERT_EQ(topology->caches.size(), 2u);
  EXPECT_EQ(topology->caches[0].level, 3);
  EXPECT_EQ(topology->caches[0].bytes, 32'000'000u);
  EXPECT_THAT(topology->caches[1].cpus, ElementsAre(4, 5, 6, 7));
}

TEST(TopologyTest, AMemoryNodeBesideThoseOfThePackagesHasNoCpus) {
  const auto topology =
      testing::SyntheticTopology("[numa(memory=8GB)] pack:2 [numa(memory=1GB)] core:2 pu:1");
  ASSERT_TRUE(topology.ok()) << topology.status();
  ASSERT_EQ(topology->nodes.size(), 3u);
  EXPECT_THAT(topology->nodes[0].cpus, ElementsAre(0, 1));
  EXPECT_THAT(topology->nodes[1].cpus, ElementsAre(2, 3));
  EXPECT_TRUE(topology->nodes[2].cpu_less());
  EXPECT_EQ(topology->nodes[2].memory_bytes, 8'000'000'000u);
  EXPECT_THAT(topology->nodes[2].near_cpus, ElementsAre(0, 1, 2, 3));
}

TEST(TopologyTest, TheFirstOfTwoNodesWithTheSameCpusHasThem) {
  const auto topology = testing::SyntheticTopology("pack:1 [numa] [numa] core:2 pu:1");
  ASSERT_TRUE(topology.ok()) << topology.status();
  ASSERT_EQ(topology->nodes.size(), 2u);
  EXPECT_THAT(topology->nodes[0].cpus, ElementsAre(0, 1));
  EXPECT_THAT(topology->nodes[1].cpus, IsEmpty());
}

TEST(TopologyTest, ThisMachineHasANodeWithMemoryAndThisProcessor) {
  const auto topology = DiscoverTopology();
  ASSERT_TRUE(topology.ok()) << topology.status();
  ASSERT_FALSE(topology->nodes.empty());
  EXPECT_GT(topology->nodes[0].memory_bytes, 0u);
  EXPECT_GE(topology->cores, 1);
  EXPECT_THAT(topology->cpus, ::testing::Contains(sched_getcpu()));
}

/// Topology's status in a child in which `call` is refused. A child that hangs dies.
std::string StatusWithout(long call, int error_number) {
  return testing::RunInChild([=]() -> std::string {
    alarm(30);
    std::string failed = testing::RefuseSystemCall(call, error_number, testing::Refuse::kEveryCall);
    return failed.empty() ? DiscoverTopology().status().ToString() : failed;
  });
}

TEST(TopologyTest, ARefusedAffinityIsNamed) {
  for (const auto& [error_number, name] :
       {std::pair(EPERM, "EPERM"), {ENOSYS, "ENOSYS"}, {EINVAL, "EINVAL"}}) {
    EXPECT_EQ(StatusWithout(SYS_sched_getaffinity, error_number),
              std::string("FAILED_PRECONDITION: sched_getaffinity is refused (") + name +
                  "), so hwloc cannot read the topology of this machine; allow the call in the "
                  "seccomp profile of the container");
  }
}

TEST(TopologyTest, AMemoryPolicyThatNoMaskFitsIsNamed) {
  EXPECT_THAT(StatusWithout(SYS_get_mempolicy, EINVAL),
              ::testing::StartsWith("FAILED_PRECONDITION: get_mempolicy is refused (EINVAL)"));
}

/// Docker's seccomp profile refuses the call, and a kernel without NUMA lacks it. hwloc works
/// without.
TEST(TopologyTest, AMemoryPolicyThatIsRefusedIsNotNeeded) {
  EXPECT_EQ(StatusWithout(SYS_get_mempolicy, EPERM), "OK");
  EXPECT_EQ(StatusWithout(SYS_get_mempolicy, ENOSYS), "OK");
}

TEST(TopologyTest, NobodyIsBoundToProcessorsInTurn) {
  EXPECT_EQ(testing::RunInChild([]() -> std::string {
              std::string failed = testing::RefuseSystemCall(
                  SYS_sched_setaffinity, EPERM, testing::Refuse::kByDeath);
              return failed.empty() ? DiscoverTopology().status().ToString() : failed;
            }),
            "OK");
}

}  // namespace
}  // namespace sluice::numa
