#include <algorithm>

#include "fmt/format.h"
#include "runtime/sim/files/quoted.h"
#include "sluice/units.h"
#include "tools/lab/show/show_report.h"

namespace sluice::tools {
namespace {

constexpr std::size_t kShownGroups = 24;

std::string OpName(const sim::FileOp& op) {
  return op.name.empty() ? fmt::format("op {}", op.id)
                         : fmt::format("op {} ({})", op.id, sim::Printable(op.name));
}

std::string FactLine(std::string_view name, std::string_view text) {
  return fmt::format("  {:<14} {}\n", name, text);
}

std::string Head(const ShowReport& report) {
  const sim::FileSchedule& schedule = report.schedule;
  std::string text = sim::Printable(schedule.name);
  if (!schedule.key.empty()) text += fmt::format(", key {}", sim::Quoted(schedule.key));
  return text + fmt::format(": {} ops, {} tensors\n", schedule.ops.size(), schedule.tensors.size());
}

/// Facts that are odd, but no errors.
std::string Oddities(const sim::ScheduleFacts& facts) {
  std::string text;
  if (facts.unwritten > 0) {
    text +=
        FactLine("inputs",
                 fmt::format("{} tensors that die within the iteration are read before anything "
                             "writes them",
                             facts.unwritten));
  }
  if (facts.untouched > 0) {
    text += FactLine("untouched", fmt::format("{} tensors that no op uses", facts.untouched));
  }
  return text;
}

std::string Overview(const ShowReport& report) {
  const sim::ScheduleFacts& facts = report.facts;
  const std::vector<sim::FileOp>& ops = report.schedule.ops;
  std::string text = Head(report);
  text += FactLine("compute", fmt::format("{:.3f} s", facts.groups.all.seconds));
  text += FactLine("persistent", ToString(Bytes(facts.persistent_bytes)));
  text += FactLine(
      "peak live",
      fmt::format("{}, at {}", ToString(Bytes(facts.live.bytes)), OpName(ops[facts.live.op])));
  text += FactLine(
      "largest op",
      fmt::format(
          "{}, {}", ToString(Bytes(facts.working_set.bytes)), OpName(ops[facts.working_set.op])));
  text += Oddities(facts);
  if (report.page_bytes > 1) {
    text += FactLine("counted in",
                     fmt::format("whole pages of {}", ToString(Bytes(report.page_bytes))));
  }
  return text;
}

std::string KindTable(const ShowReport& report) {
  std::string text = fmt::format(
      "\n{:<30} {:>8} {:>12} {:>12}\n", "kind of tensor", "tensors", "bytes", "persistent");
  for (std::size_t kind = 0; kind < report.facts.kinds.size(); ++kind) {
    const sim::KindFacts& facts = report.facts.kinds[kind];
    if (facts.tensors == 0) continue;
    text += fmt::format("{:<30} {:>8} {:>12} {:>12}\n",
                        ToString(static_cast<TensorKind>(kind)),
                        facts.tensors,
                        ToString(Bytes(facts.bytes)),
                        ToString(Bytes(facts.persistent_bytes)));
  }
  return text;
}

/// "  parameter: 1 GiB read, 2 GiB written; kv: ..."; nothing where there is one kind only.
std::string KindsOf(const sim::OpGroup& group) {
  std::string text;
  int kinds = 0;
  for (std::size_t kind = 0; kind < group.read.size(); ++kind) {
    if (group.read[kind] + group.written[kind] == 0) continue;
    text += fmt::format("{}{} {} / {}",
                        kinds++ == 0 ? "    " : ", ",
                        ToString(static_cast<TensorKind>(kind)),
                        ToString(Bytes(group.read[kind])),
                        ToString(Bytes(group.written[kind])));
  }
  return kinds < 2 ? "" : text + "\n";
}

std::string GroupTable(std::string_view what,
                       const std::vector<sim::OpGroup>& groups,
                       double all_seconds) {
  std::string text =
      fmt::format("\n{:<30} {:>8} {:>12} {:>7} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
                  what,
                  "ops",
                  "seconds",
                  "share",
                  "read",
                  "written",
                  "peak live",
                  "largest op",
                  "again 50 %",
                  "again 90 %");
  for (std::size_t i = 0; i < std::min(groups.size(), kShownGroups); ++i) {
    const sim::OpGroup& group = groups[i];
    const bool reuses = group.reused_bytes > 0;
    text +=
        fmt::format("{:<30} {:>8} {:>12.6f} {:>5.1f} % {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
                    sim::Printable(group.name),
                    group.ops,
                    group.seconds,
                    all_seconds > 0 ? 100 * group.seconds / all_seconds : 0,
                    ToString(Bytes(sim::Sum(group.read))),
                    ToString(Bytes(sim::Sum(group.written))),
                    ToString(Bytes(group.peak_live_bytes)),
                    ToString(Bytes(group.working_set_bytes)),
                    reuses ? ToString(Bytes(group.reuse_distances[0])) : "-",
                    reuses ? ToString(Bytes(group.reuse_distances[1])) : "-");
    text += KindsOf(group);
  }
  if (groups.size() > kShownGroups) {
    text += fmt::format("and {} more; --json tells all\n", groups.size() - kShownGroups);
  }
  return text;
}

std::string ReuseTable(const std::vector<sim::Reuse>& reuses) {
  if (reuses.empty()) return "\nnothing is used again\n";
  std::uint64_t bytes = 0;
  for (const sim::Reuse& reuse : reuses) bytes += reuse.bytes;
  std::string text =
      fmt::format("\nof {:<27} {:>21}\n", ToString(Bytes(bytes)) + " used again", "within");
  for (const double share : kReuseShares) {
    text += fmt::format(
        "{:>5.0f} % {:>44}\n", 100 * share, ToString(Bytes(ReuseQuantile(reuses, share))));
  }
  return text;
}

}  // namespace

std::string ToText(const ShowReport& report) {
  const sim::OpGroups& groups = report.facts.groups;
  return Overview(report) + KindTable(report) +
         GroupTable("lane", groups.by_lane.groups, groups.all.seconds) +
         GroupTable("group of ops", groups.by_name.groups, groups.all.seconds) +
         ReuseTable(report.facts.reuses);
}

}  // namespace sluice::tools
