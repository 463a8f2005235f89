#include "tools/bench/row_output.h"

#include <sys/utsname.h>

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
  AddIfAny("ratio_spread", row.ratio_spread, object);
  AddIfAny("target", row.bar, object);
  AddIfAny("control", row.control, object);
  AddIfAny("control_low", row.control_low, object);
  AddIfAny("depth", row.depth, object);
  AddIfAny("file_bytes", row.file_bytes, object);
  AddIfAny("cpu_seconds_per_gib", row.cpu_per_gib, object);
  AddIfAny("cpu_ratio", row.cpu_ratio, object);
  AddIfAny("peer", row.peer, object);
  AddIfAny("peer_value", row.peer_value, object);
  AddIfAny("peer_ratio", row.peer_ratio, object);
  AddIfAny("peer_cpu_seconds_per_gib", row.peer_cpu_per_gib, object);
}

void AddUpdate(const bench::Row& row, Json& object) {
  AddIfAny("simd", row.simd, object);
  AddIfAny("ns_per_parameter", row.ns_per_parameter, object);
  AddIfAny("bytes_per_parameter", row.bytes_per_parameter, object);
  AddIfAny("gib_per_second", row.gib_per_second, object);
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

/// The one that applies: a row has at most one of them.
std::optional<double> RatioOf(const bench::Row& row) {
  return row.ratio.has_value() ? row.ratio : row.peer_ratio;
}

std::string Line(const std::string& name,
                 const std::string& value,
                 const std::string& against,
                 const std::string& ratio,
                 const std::string& target,
                 const std::string& control,
                 const std::string& cpu,
                 const std::string& depth) {
  return fmt::format("{:<42} {:>9} {:>9} {:>7} {:>7} {:>9} {:>9} {:>6}",
                     name,
                     value,
                     against,
                     ratio,
                     target,
                     control,
                     cpu,
                     depth);
}

}  // namespace

MachineFacts ReadMachineFacts() {
  const CpuFacts cpu = ReadCpu();
  utsname system{};
  uname(&system);
  return {.cpu = cpu.model, .cpus = cpu.allowed, .kernel = system.release};
}

MachineFacts ReadMachineFacts(const std::string& directory) {
  MachineFacts facts = ReadMachineFacts();
  facts.file_system = ReadSpill(directory).file_system;
  return facts;
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
  AddUpdate(row, object);
  if (row.step.has_value()) AddStep(*row.step, object);
  AddIfAny("cpu", facts.cpu, object);
  object["cpus"] = facts.cpus;
  AddIfAny("kernel", facts.kernel, object);
  AddIfAny("file_system", facts.file_system, object);
  object["huge_pages"] = row.huge_pages;
  if (row.registered_bytes.has_value()) object["registered_bytes"] = *row.registered_bytes;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string UpdateTableHead() {
  return fmt::format("{:<32} {:>7} {:>8} {:>7} {:>7} {:>6} {:>9}",
                     "case",
                     "simd",
                     "ns/param",
                     "GiB/s",
                     "ratio",
                     "target",
                     "control25");
}

std::string UpdateRowToText(const bench::Row& row) {
  return fmt::format("{:<32} {:>7} {:>8} {:>7} {:>7} {:>6} {:>9}",
                     row.name,
                     row.simd,
                     Cell(row.ns_per_parameter, 3),
                     Cell(row.gib_per_second, 1),
                     Cell(row.ratio, 2),
                     Cell(row.bar, 2),
                     Cell(row.control_low, 2));
}

std::string StepTableHead() {
  return fmt::format(
      "{:<24} {:>7} {:>7} {:>6} {:>6} {:>6} {:>9} {:>6} {:>6} {:>7} {:>7} {:>7} {:>8}",
      "case",
      "s/step",
      "floor",
      "ratio",
      "target",
      "ns/par",
      "control25",
      "wait_r",
      "wait_w",
      "compute",
      "readGiB",
      "writGiB",
      "mem/max");
}

std::string StepRowToText(const bench::Row& row) {
  const bench::StepFigures step = row.step.value_or(bench::StepFigures());
  constexpr double kGiB = 1 << 30;
  std::optional<double> memory;
  if (step.peak_rss_bytes.has_value()) {
    memory =
        static_cast<double>(*step.peak_rss_bytes) / static_cast<double>(step.peak_rss_limit_bytes);
  }
  return fmt::format(
      "{:<24} {:>7} {:>7} {:>6} {:>6} {:>6} {:>9} {:>6} {:>6} {:>7} {:>7} {:>7} {:>8}",
      row.name,
      Cell(step.seconds, 3),
      Cell(step.floor_seconds, 3),
      Cell(row.ratio, 2),
      Cell(row.bar, 2),
      Cell(row.ns_per_parameter, 2),
      Cell(row.control_low, 2),
      Cell(step.wait_read_seconds, 2),
      Cell(step.wait_write_seconds, 2),
      Cell(step.compute_seconds, 2),
      Cell(step.read_bytes / kGiB, 2),
      Cell(step.written_bytes / kGiB, 2),
      Cell(memory, 2));
}

std::string TableHead() {
  return Line("case", "value", "against", "ratio", "target", "control25", "cpu_ratio", "depth");
}

std::string RowToText(const bench::Row& row) {
  return Line(row.name,
              fmt::format("{:.2f}", row.value),
              Cell(row.peer_value.has_value() ? row.peer_value : row.ceiling, 2),
              Cell(RatioOf(row), 2),
              Cell(row.bar, 2),
              Cell(row.control_low, 2),
              Cell(row.cpu_ratio, 2),
              row.depth.has_value() ? std::to_string(*row.depth) : "");
}

}  // namespace sluice::tools
