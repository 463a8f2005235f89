#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sluice/units.h"
#include "tests/support/synthetic_topology.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json ChoicesIn(const Section& section) { return Json::parse(section.ToJson()); }

/// A machine on which nothing falls back.
Facts GoodMachine() {
  Facts facts;
  facts.cpu = {.model = "m", .allowed = 2, .simd = {"AVX2", "SSE4"}};
  facts.topology = testing::SyntheticTopology("numa:2 core:4 pu:1");
  facts.dram_nodes.nodes = {{.index = 0, .available_bytes = 2 << 20},
                            {.index = 1, .available_bytes = 1 << 20}};
  numa::MemoryLimits limits;
  limits.available_bytes = limits.system_available_bytes = 1 << 30;
  limits.max_map_count = 65530;
  limits.available_source = "/g/memory.max";
  facts.limits = limits;
  facts.huge_pages.arena_share = 1;
  facts.io_uring = {.available = true, .single_issuer = true, .operations = {"read", "write"}};
  facts.gpu.reason = "no device";
  return facts;
}

TEST(DoctorChoicesTest, AGoodMachineHasNoFallback) {
  const Json json = ChoicesIn(DescribeChoices(GoodMachine()));
  EXPECT_EQ(json["io_engine"]["chosen"], "io_uring");
  EXPECT_EQ(json["file_mode"]["chosen"], "direct");
  EXPECT_EQ(json["overwrites"]["chosen"], "in place");
  EXPECT_EQ(json["arena_pages"]["chosen"], "2 MiB");
  EXPECT_EQ(json["arena_nodes"]["chosen"], "nodes 0, 1");
  EXPECT_EQ(json["arena_nodes"]["why"], "all 2, in even shares");
  EXPECT_EQ(json["arena_memory_max"][1]["available_bytes"], 1 << 20);
  EXPECT_THAT(json["fallbacks"], IsEmpty());
  EXPECT_EQ(json["simd"]["chosen"], "AVX2");
  EXPECT_EQ(json["device"]["chosen"], "emulated");
  EXPECT_EQ(json["device"]["why"], "no device");
  const Facts good = GoodMachine();
  const Bytes budgets = LargestBudgets(good.needs, *good.limits);
  EXPECT_EQ(json["budget_bytes_max"], budgets.count());
  EXPECT_LT(budgets, 1_GiB) << "the program takes memory, too";
  EXPECT_GT(budgets, 900_MiB);
  EXPECT_THAT(DescribeChoices(good).ToText(), HasSubstr("1 GiB of /g/memory.max for"));
}

TEST(DoctorChoicesTest, MappingsMayAllowLessThanTheMemory) {
  Facts facts = GoodMachine();
  facts.needs.runtime.page_bytes = 4_KiB;
  facts.limits->max_map_count = 65530;
  EXPECT_LT(LargestBudgets(facts.needs, *facts.limits), 120_MiB);
  EXPECT_THAT(DescribeChoices(facts).ToText(),
              HasSubstr("4 KiB (vm.max_map_count of 65530 allows no more pages)"));
}

TEST(DoctorChoicesTest, AJobThatTrainWouldRefuseIsNamed) {
  Facts facts = GoodMachine();
  EXPECT_FALSE(ChoicesIn(DescribeChoices(facts)).contains("job_fits")) << "there is no job";
  facts.job_fits = absl::OkStatus();
  EXPECT_EQ(ChoicesIn(DescribeChoices(facts))["job_fits"], true);
  facts.job_fits = absl::ResourceExhaustedError("nvme is too small");
  EXPECT_EQ(ChoicesIn(DescribeChoices(facts))["job_fits"], false);
  EXPECT_THAT(DescribeChoices(facts).ToText(), HasSubstr("no: nvme is too small"));
}

TEST(DoctorChoicesTest, TheNodeOfTheGpuIsSaid) {
  Facts facts = GoodMachine();
  facts.gpu.devices = {{.name = "g", .node = 1}};
  EXPECT_EQ(ChoicesIn(DescribeChoices(facts))["arena_nodes"]["why"],
            "all 2, in even shares; device.kind = \"cuda\" fills node 1, the GPU's, first");
}

TEST(DoctorChoicesTest, EachFallbackSaysWhy) {
  Facts facts = GoodMachine();
  facts.io_uring = {.available = false, .reason = "io_uring_setup: EPERM"};
  facts.spill.direct_reason = "the file system is memory (tmpfs)";
  facts.spill.nocow_reason = "zfs copies pages on write";
  facts.spill.reserved_space_reason = "fallocate is not supported: EOPNOTSUPP";
  facts.huge_pages = {.arena_share = 0.5, .reason = "refused"};
  facts.dram_nodes.binding_reason = "mbind refused";
  const Json json = ChoicesIn(DescribeChoices(facts));
  EXPECT_EQ(json["io_engine"]["chosen"], "threads");
  EXPECT_EQ(json["io_engine"]["why"], "io_uring_setup: EPERM");
  EXPECT_EQ(json["file_mode"]["chosen"], "buffered");
  EXPECT_EQ(json["file_mode"]["why"], "the file system is memory (tmpfs)");
  EXPECT_EQ(json["overwrites"]["chosen"], "copied");
  EXPECT_EQ(json["overwrites"]["why"], "zfs copies pages on write");
  EXPECT_EQ(json["spill_space"]["chosen"], "written in full first");
  EXPECT_EQ(json["spill_space"]["why"], "fallocate is not supported: EOPNOTSUPP");
  EXPECT_EQ(json["arena_pages"]["chosen"], "4 KiB");
  EXPECT_EQ(json["arena_pages"]["why"], "refused");
  EXPECT_EQ(json["arena_nodes"]["chosen"], "any node");
  EXPECT_EQ(json["arena_nodes"]["why"], "mbind refused");
  std::string keys;
  for (const Json& fallback : json["fallbacks"]) keys += fallback.value("forbidden_by", "?") + " ";
  EXPECT_EQ(keys,
            "io.io_uring = \"require\" io.direct = \"require\" io.nocow = \"require\" "
            "io.reserved_space = \"require\" memory.huge_pages = \"require\" "
            "memory.numa_binding = \"require\" ");
  facts = GoodMachine();
  facts.compute = gpt::ComputeRate{.library = {.name = "L"}, .gflops = 1, .peak_gflops = 10};
  const std::string slow = ChoicesIn(DescribeChoices(facts))["fallbacks"].dump();
  EXPECT_EQ(slow, R"([{"what":"matrix_products"}])") << "no key forbids it";
  EXPECT_THAT(DescribeChoices(facts).ToText(), HasSubstr("matrix_products (no key forbids it)"));
  facts = GoodMachine();
  facts.io_uring.operations = {"read"};
  EXPECT_EQ(ChoicesIn(DescribeChoices(facts))["io_engine"]["chosen"], "threads");
}

TEST(DoctorChoicesTest, NodesThatAreLeftOutAreSaid) {
  Facts facts = GoodMachine();
  facts.dram_nodes.nodes = {{.index = 1}};
  const Json json = ChoicesIn(DescribeChoices(facts));
  EXPECT_EQ(json["arena_nodes"]["chosen"], "node 1");
  EXPECT_THAT(json["arena_nodes"].value("why", ""), HasSubstr("of 2, those that this process may"));
}

TEST(DoctorChoicesTest, ThisMachineHasNodesForDram) {
  const DramNodeFacts facts = ReadDramNodes(numa::DiscoverTopology());
  ASSERT_FALSE(facts.nodes.empty());
  EXPECT_TRUE(facts.nodes.front().node_count > 1 || facts.binding_reason.empty())
      << facts.binding_reason;
  EXPECT_THAT(ReadDramNodes(absl::UnknownError("unread")).nodes, IsEmpty());
}

}  // namespace
}  // namespace sluice::tools
