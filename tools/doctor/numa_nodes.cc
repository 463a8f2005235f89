#include "base/strings.h"
#include "fmt/format.h"
#include "numa/node_arenas.h"
#include "sluice/units.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kNodeProbePageBytes = 4096;

void AddNodes(const numa::Topology& topology, Section& section) {
  Json nodes = Json::array();
  std::string text;
  for (const numa::NodeInfo& node : topology.nodes) {
    nodes.push_back(
        {{"index", node.index}, {"memory_bytes", node.memory_bytes}, {"cpus", node.cpus}});
    text += fmt::format("{}node {}: {}, {}",
                        text.empty() ? "" : "; ",
                        node.index,
                        ToString(Bytes(node.memory_bytes)),
                        node.cpu_less() ? std::string("no processors")
                                        : fmt::format("{} processors", node.cpus.size()));
  }
  section.Add("nodes", std::move(nodes), std::move(text));
}

void AddCaches(const numa::Topology& topology, Section& section) {
  Json caches = Json::array();
  std::string text;
  int level_said = 0;
  for (const numa::CacheInfo& cache : topology.caches) {
    caches.push_back({{"level", cache.level},
                      {"bytes", cache.bytes},
                      {"line_bytes", cache.line_bytes},
                      {"cpus", cache.cpus}});
    if (cache.level == level_said) continue;
    level_said = cache.level;
    text += fmt::format(
        "{}L{} {}", text.empty() ? "" : ", ", cache.level, ToString(Bytes(cache.bytes)));
  }
  if (!topology.caches.empty()) section.Add("caches", std::move(caches), std::move(text));
}

}  // namespace

DramNodeFacts ReadDramNodes(const absl::StatusOr<numa::Topology>& topology) {
  DramNodeFacts facts;
  if (!topology.ok()) return facts;
  auto nodes = numa::ListMemoryNodes(*topology);
  if (!nodes.ok()) return facts;
  facts.nodes = *std::move(nodes);
  const auto arenas =
      numa::NodeArenas::Create({.name = "doctor",
                                .page_bytes = kNodeProbePageBytes,
                                .frames = static_cast<std::uint32_t>(facts.nodes.size()),
                                .nodes = facts.nodes});
  facts.binding_reason = arenas.ok() ? (*arenas)->info().binding_reason
                                     : std::string(base::ToStd(arenas.status().message()));
  return facts;
}

Section DescribeNuma(const absl::StatusOr<numa::Topology>& topology) {
  Section section("numa");
  if (!topology.ok()) {
    section.Warn(std::string(topology.status().message()));
    return section;
  }
  section.Add("packages", topology->packages, fmt::format("{}", topology->packages));
  section.Add("cores", topology->cores, fmt::format("{}", topology->cores));
  AddNodes(*topology, section);
  AddCaches(*topology, section);
  return section;
}

}  // namespace sluice::tools
