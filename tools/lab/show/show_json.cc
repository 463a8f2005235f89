#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/lab/show/show_report.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string Line(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void AddIfAny(const char* key, const std::string& value, Json* object) {
  if (!value.empty()) (*object)[key] = value;
}

void AddPeak(const char* what, const sim::Peak& peak, const ShowReport& report, Json* object) {
  const sim::FileOp& op = report.schedule.ops[peak.op];
  (*object)[fmt::format("{}_bytes", what)] = peak.bytes;
  (*object)[fmt::format("{}_op", what)] = op.id;
  AddIfAny(fmt::format("{}_op_name", what).c_str(), op.name, object);
}

Json ScheduleObject(const ShowReport& report) {
  const sim::FileSchedule& schedule = report.schedule;
  const sim::ScheduleFacts& facts = report.facts;
  Json object = {{"section", "schedule"}, {"file", report.file}, {"schedule", schedule.name}};
  AddIfAny("key", schedule.key, &object);
  AddIfAny("source", schedule.source, &object);
  object["ops"] = schedule.ops.size();
  object["tensors"] = schedule.tensors.size();
  object["compute_s"] = facts.groups.all.seconds;
  if (report.page_bytes > 1) object["page_bytes"] = report.page_bytes;
  object["persistent_bytes"] = facts.persistent_bytes;
  AddPeak("peak_live", facts.live, report, &object);
  AddPeak("working_set", facts.working_set, report, &object);
  object["read_bytes"] = sim::Sum(facts.groups.all.read);
  object["written_bytes"] = sim::Sum(facts.groups.all.written);
  object["untouched_tensors"] = facts.untouched;
  object["unwritten_tensors"] = facts.unwritten;
  return object;
}

Json KindObject(const ShowReport& report, std::size_t kind) {
  const sim::KindFacts& facts = report.facts.kinds[kind];
  return {{"section", "kind"},
          {"kind", ToString(static_cast<TensorKind>(kind))},
          {"tensors", facts.tensors},
          {"bytes", facts.bytes},
          {"persistent_bytes", facts.persistent_bytes},
          {"read_bytes", report.facts.groups.all.read[kind]},
          {"written_bytes", report.facts.groups.all.written[kind]}};
}

/// Kinds of which there are none are absent.
Json ByKind(const sim::KindBytes& bytes) {
  Json object = Json::object();
  for (std::size_t kind = 0; kind < bytes.size(); ++kind) {
    if (bytes[kind] > 0) object[std::string(ToString(static_cast<TensorKind>(kind)))] = bytes[kind];
  }
  return object;
}

Json GroupObject(const char* section, const sim::OpGroup& group) {
  Json object = {{"section", section},
                 {section, group.name},
                 {"ops", group.ops},
                 {"compute_s", group.seconds},
                 {"read_bytes", sim::Sum(group.read)},
                 {"written_bytes", sim::Sum(group.written)},
                 {"read_bytes_by_kind", ByKind(group.read)},
                 {"written_bytes_by_kind", ByKind(group.written)},
                 {"peak_live_bytes", group.peak_live_bytes},
                 {"working_set_bytes", group.working_set_bytes},
                 {"reused_bytes", group.reused_bytes}};
  if (group.reused_bytes == 0) return object;
  for (std::size_t i = 0; i < group.reuse_distances.size(); ++i) {
    object["reuse"].push_back(
        {{"share", sim::kGroupReuseShares[i]}, {"distance_bytes", group.reuse_distances[i]}});
  }
  return object;
}

}  // namespace

std::string ToJsonLines(const ShowReport& report) {
  std::string text = Line(ScheduleObject(report));
  for (std::size_t kind = 0; kind < report.facts.kinds.size(); ++kind) {
    if (report.facts.kinds[kind].tensors > 0) text += Line(KindObject(report, kind));
  }
  for (const sim::OpGroup& lane : report.facts.groups.by_lane.groups) {
    text += Line(GroupObject("lane", lane));
  }
  for (const sim::OpGroup& group : report.facts.groups.by_name.groups) {
    text += Line(GroupObject("group", group));
  }
  if (report.facts.reuses.empty()) return text;
  for (const double share : kReuseShares) {
    text += Line({{"section", "reuse"},
                  {"share", share},
                  {"distance_bytes", sim::ReuseQuantile(report.facts.reuses, share)}});
  }
  return text;
}

}  // namespace sluice::tools
