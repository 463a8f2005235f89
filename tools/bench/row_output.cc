#include "tools/bench/row_output.h"

#include <sys/utsname.h>

#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
void AddIfAny(const char* key, const std::optional<Value>& value, Json& object) {
  if (value.has_value()) object[key] = *value;
}

void AddIfAny(const char* key, const std::string& value, Json& object) {
  if (!value.empty()) object[key] = value;
}

void AddJudgement(const bench::Row& row, Json& object) {
  AddIfAny("ceiling", row.ceiling, object);
  AddIfAny("ceiling_of", row.ceiling_of, object);
  AddIfAny("ratio", row.ratio, object);
  AddIfAny("target", row.bar, object);
  AddIfAny("over_max", row.over_max, object);
  AddIfAny("reached", row.reached, object);
  AddIfAny("control", row.control, object);
  AddIfAny("control_low", row.control_low, object);
  AddIfAny("depth", row.depth, object);
  AddIfAny("cpu_seconds_per_gib", row.cpu_per_gib, object);
  AddIfAny("cpu_ratio", row.cpu_ratio, object);
  AddIfAny("peer", row.peer, object);
  AddIfAny("peer_value", row.peer_value, object);
  AddIfAny("peer_ratio", row.peer_ratio, object);
}

void AddStep(const bench::StepFigures& step, Json& object) {
  object["parameters"] = step.parameters;
  object["budget_bytes"] = step.budget_bytes;
  object["seconds"] = step.seconds;
  object["floor_seconds"] = step.floor_seconds;
  object["wait_seconds"] = step.wait_seconds;
  object["wait_read_seconds"] = step.wait_read_seconds;
  object["wait_write_seconds"] = step.wait_write_seconds;
  object["compute_seconds"] = step.compute_seconds;
  object["read_bytes"] = step.read_bytes;
  object["written_bytes"] = step.written_bytes;
  object["read_busy_seconds"] = step.read_busy_seconds;
  object["write_busy_seconds"] = step.write_busy_seconds;
  AddIfAny("peak_rss_bytes", step.peak_rss_bytes, object);
  object["peak_rss_limit_bytes"] = step.peak_rss_limit_bytes;
}

/// Blank when there is none.
std::string Cell(const std::optional<double>& value, int decimals) {
  return value.has_value() ? fmt::format("{:.{}f}", *value, decimals) : "";
}

constexpr char kTableLine[] = "{:<42} {:>9} {:>13} {:>9} {:>7} {:>7} {:>9} {:>9} {:>9}";

}  // namespace

MachineFacts ReadMachineFacts(const std::string& directory) {
  const CpuFacts cpu = ReadCpu();
  utsname system{};
  uname(&system);
  return {.cpu = cpu.model,
          .cpus = cpu.allowed,
          .kernel = system.release,
          .file_system = directory.empty() ? "" : ReadSpill(directory).file_system};
}

std::string RowToJson(const std::string& bench, const bench::Row& row, const MachineFacts& facts) {
  Json object;
  object["bench"] = bench;
  object["case"] = row.name;
  object["value"] = row.value;
  object["unit"] = row.unit;
  object["reps"] = row.reps;
  object["spread"] = row.spread;
  AddJudgement(row, object);
  AddIfAny("simd", row.simd, object);
  AddIfAny("ns_per_parameter", row.ns_per_parameter, object);
  if (row.step.has_value()) AddStep(*row.step, object);
  AddIfAny("cpu", facts.cpu, object);
  object["cpus"] = facts.cpus;
  AddIfAny("kernel", facts.kernel, object);
  AddIfAny("file_system", facts.file_system, object);
  object["huge_pages"] = row.huge_pages;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string TableHead() {
  return fmt::format(kTableLine,
                     "case",
                     "value",
                     "unit",
                     "against",
                     "ratio",
                     "target",
                     "control25",
                     "cpu_ratio",
                     "ns/param");
}

std::string RowToText(const bench::Row& row) {
  return fmt::format(kTableLine,
                     row.name,
                     Cell(row.value, 2),
                     row.unit,
                     Cell(row.peer_value.has_value() ? row.peer_value : row.ceiling, 2),
                     Cell(row.ratio.has_value() ? row.ratio : row.peer_ratio, 2),
                     Cell(row.bar, 2),
                     Cell(row.control_low, 2),
                     Cell(row.cpu_ratio, 2),
                     Cell(row.ns_per_parameter, 3));
}

void RowPrinter::Add(const bench::Row& row) {
  if (!std::exchange(has_head_, true)) console_.Print(TableHead() + "\n");
  console_.PrintJson(RowToJson(bench_, row, facts_) + "\n");
  console_.Print(RowToText(row) + "\n");
}

}  // namespace sluice::tools
