#include "numa/memory_nodes.h"

#include <numa.h>
#include <numaif.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numa/binding.h"
#include "tests/support/child_process.h"
#include "tests/support/synthetic_topology.h"
#include "tests/support/temp_directory.h"

namespace sluice::numa {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kNodesMiB = 1 << 20;

/// A directory that stands for "/".
class Root {
 public:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = directory_.path() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string path() const { return directory_.path(); }

 private:
  testing::TempDirectory directory_;
};

std::vector<MemoryNode> NodesOf(const std::string& description, const Root& root) {
  const auto topology = testing::SyntheticTopology(description.c_str());
  EXPECT_TRUE(topology.ok()) << topology.status();
  const auto nodes = ListMemoryNodes(*topology, root.path());
  EXPECT_TRUE(nodes.ok()) << nodes.status();
  return *nodes;
}

std::vector<int> IndicesOf(const std::vector<MemoryNode>& nodes) {
  std::vector<int> indices;
  for (const MemoryNode& node : nodes) indices.push_back(node.index);
  return indices;
}

/// Nodes with `mib` MiB available.
std::vector<MemoryNode> NodesWith(const std::vector<std::uint64_t>& mib) {
  std::vector<MemoryNode> nodes;
  for (std::size_t i = 0; i < mib.size(); ++i) {
    nodes.push_back({.index = static_cast<int>(i),
                     .node_count = static_cast<int>(mib.size()),
                     .available_bytes = mib[i] * kNodesMiB});
  }
  return nodes;
}

TEST(MemoryNodesTest, AllNodesWithMemoryAndProcessorsAreTaken) {
  const auto nodes = NodesOf("numa:3 core:2 pu:1", Root());
  EXPECT_THAT(IndicesOf(nodes), ElementsAre(0, 1, 2));
  EXPECT_THAT(nodes[1].cpus, ElementsAre(2, 3));
  EXPECT_EQ(nodes[1].node_count, 3);
  EXPECT_EQ(nodes[1].available_bytes, std::nullopt) << "the root has no meminfo";
}

TEST(MemoryNodesTest, NodesThatTheCpusetForbidsAreLeftOut) {
  Root root;
  root.Write("/proc/self/status", "Name:\tx\nMems_allowed_list:\t1-2,7\nThreads:\t1\n");
  const auto nodes = NodesOf("numa:4 core:1 pu:1", root);
  EXPECT_THAT(IndicesOf(nodes), ElementsAre(1, 2));
  EXPECT_EQ(nodes[0].node_count, 2);
}

TEST(MemoryNodesTest, FarMemoryIsLeftOutButStillMustBeBoundAgainst) {
  const std::string far_beside_two = "[numa(memory=8GB)] pack:2 [numa(memory=1GB)] core:2 pu:1";
  const auto nodes = NodesOf(far_beside_two, Root());
  EXPECT_THAT(IndicesOf(nodes), ElementsAre(0, 1));
  EXPECT_EQ(nodes[0].node_count, 3) << "memory could come from the far node";
  Root root;
  root.Write("/proc/self/status", "Mems_allowed_list:\t2\n");
  EXPECT_THAT(IndicesOf(NodesOf(far_beside_two, root)), ElementsAre(2))
      << "no other node is allowed";
}

TEST(MemoryNodesTest, AvailableIsWhatTheNodeCanGiveBack) {
  Root root;
  root.Write("/sys/devices/system/node/node1/meminfo",
             "Node 1 MemTotal:       900 kB\n"
             "Node 1 MemFree:        100 kB\n"
             "Node 1 Active(anon):   500 kB\n"
             "Node 1 Active(file):    20 kB\n"
             "Node 1 Inactive(file):   3 kB\n"
             "Node 1 SReclaimable:     1 kB\n");
  const auto nodes = NodesOf("numa:2 core:1 pu:1", root);
  EXPECT_EQ(nodes[0].available_bytes, std::nullopt);
  EXPECT_EQ(nodes[1].available_bytes, 124u * 1024);
}

TEST(MemoryNodesTest, ThisMachineHasOneThatCanGiveMemory) {
  const auto topology = DiscoverTopology();
  ASSERT_TRUE(topology.ok()) << topology.status();
  const auto nodes = ListMemoryNodes(*topology);
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  ASSERT_FALSE(nodes->empty());
  EXPECT_FALSE(nodes->front().cpus.empty());
  EXPECT_GT(nodes->front().available_bytes.value_or(1), 0u);
  EXPECT_EQ(nodes->front().available_bytes.has_value(), topology->nodes.size() > 1);
}

/// The nodes of a process that is bound to the first one.
std::string NodesWhenBound() {
  bitmask* first = numa_bitmask_alloc(kNodeIndexEnd);
  numa_bitmask_setbit(first, 0);
  if (set_mempolicy(MPOL_BIND, first->maskp, first->size + 1) != 0) return "set_mempolicy refused";
  std::string text;
  for (const int node : PolicyNodes()) text += std::to_string(node) + " policy, ";
  const auto topology = testing::SyntheticTopology("numa:2 core:1 pu:1");
  const auto nodes = ListMemoryNodes(*topology, "/nowhere");
  for (const MemoryNode& node : nodes.value()) {
    text += std::to_string(node.index) + " of " + std::to_string(node.node_count);
  }
  return text;
}

TEST(MemoryNodesTest, AMemoryPolicyIsFollowed) {
  EXPECT_THAT(PolicyNodes(), IsEmpty());
  const std::string text = testing::RunInChild(NodesWhenBound);
  if (text == "set_mempolicy refused") GTEST_SKIP() << text;
  EXPECT_EQ(text, "0 policy, 0 of 2");
}

TEST(NodeOfPciTest, SaysWhatTheSystemSays) {
  Root root;
  const std::string slots = "/sys/bus/pci/devices/";
  root.Write(slots + "0000:3b:00.0/numa_node", "1\n");
  root.Write(slots + "0000:3c:00.0/numa_node", "-1\n");
  EXPECT_EQ(NodeOfPci("0000:3B:00.0", root.path()), 1);
  EXPECT_EQ(NodeOfPci("0000:3c:00.0", root.path()), std::nullopt) << "the firmware names none";
  EXPECT_EQ(NodeOfPci("0000:3d:00.0", root.path()), std::nullopt);
}

TEST(SplitFramesTest, SharesAreEvenAndTheFirstHasTheRemainder) {
  const auto nodes = NodesWith({100, 100, 100});
  EXPECT_THAT(*SplitFrames(32, kNodesMiB, nodes), ElementsAre(12, 10, 10));
  EXPECT_THAT(*SplitFrames(30, kNodesMiB, nodes), ElementsAre(10, 10, 10));
  EXPECT_THAT(*SplitFrames(2, kNodesMiB, nodes), ElementsAre(2, 0, 0));
  EXPECT_EQ(DescribeLack(32, kNodesMiB, nodes), "");
}

TEST(SplitFramesTest, ANodeOfUnknownMemoryTakesItsShare) {
  auto nodes = NodesWith({100, 1});
  nodes[1].available_bytes.reset();
  EXPECT_THAT(*SplitFrames(41, kNodesMiB, nodes), ElementsAre(21, 20));
}

TEST(SplitFramesTest, OneNodeTakesAllThatItMayHave) {
  auto nodes = NodesWith({100});
  EXPECT_THAT(*SplitFrames(100, kNodesMiB, nodes), ElementsAre(100));
  const auto refused = SplitFrames(101, kNodesMiB, nodes);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              ::testing::HasSubstr("node 0 has 100 MiB available"));
  nodes[0].available_bytes.reset();
  EXPECT_THAT(*SplitFrames(101, kNodesMiB, nodes), ElementsAre(101));
  EXPECT_EQ(DescribeLack(101, kNodesMiB, nodes), "");
}

TEST(SplitFramesTest, FramesThatANodeLacksGoToTheOthers) {
  const auto nodes = NodesWith({11, 3, 50, 50});
  EXPECT_THAT(*SplitFrames(40, kNodesMiB, nodes), ElementsAre(11, 3, 13, 13));
  EXPECT_EQ(DescribeLack(40, kNodesMiB, nodes),
            "node 1 has 3072 KiB available, an even share is 10 MiB");
  EXPECT_THAT(*SplitFrames(114, kNodesMiB, nodes), ElementsAre(11, 3, 50, 50));
}

TEST(FillNodesTest, OneNodeIsFilledAfterTheOther) {
  EXPECT_THAT(*FillNodes(40, kNodesMiB, NodesWith({11, 3, 50, 50})), ElementsAre(11, 3, 26, 0));
  EXPECT_THAT(*FillNodes(5, kNodesMiB, NodesWith({11, 3})), ElementsAre(5, 0));
  const auto refused = FillNodes(40, kNodesMiB, NodesWith({17, 3}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(SplitFramesTest, MoreThanAllNodesHaveNamesThem) {
  const auto refused = SplitFrames(40, kNodesMiB, NodesWith({17, 3}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("20 MiB of dram find no memory: node 0 has 17 MiB available, an even share "
                        "is 20 MiB; node 1 has 3072 KiB available, an even share is 20 MiB"));
}

}  // namespace
}  // namespace sluice::numa
