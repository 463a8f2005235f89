#include "tools/lab/run/run_flags.h"

#include <set>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "fmt/format.h"
#include "runtime/core/core.h"
#include "tools/lab/run/machine_flags.h"
#include "tools/support/arguments.h"
#include "tools/support/number_flag.h"
#include "tools/support/output/output_check.h"
#include "tools/support/page_flag.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kDefaultPage = std::uint64_t{2} << 20;
constexpr NumberRange kIterationsRange{2, 1000};
constexpr NumberRange kPrefetchOpsRange{0, 1 << 20};

const std::vector<FlagSpec>& RunFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"SCHEDULE",
       FlagShape::kWord,
       "",
       "a file of JSON lines, gzip or not, as `sluice train --record` writes; required"},
      {"--key", FlagShape::kValue, "KEY", "the iteration key (default: that with the most ops)"},
      {"--tiers",
       FlagShape::kValue,
       "TIER=BYTES,...",
       "budgets, as hbm=40GiB,dram=128GiB; required"},
      {"--link",
       FlagShape::kRepeated,
       "NAME=IN[/OUT][/BOTH][,LATENCY][,half]",
       "a link, as hbm-dram=15.754GiB/s,50us; once more: another path"},
      {"--policy", FlagShape::kValue, "NAME,...", "default: planned,min,lru; planned for traffic"},
      {"--objective",
       FlagShape::kValue,
       "time|traffic",
       "what policy planned saves (time): traffic moves fewer bytes, though ops wait"},
      {"--recompute",
       FlagShape::kValue,
       "none|all|planned",
       "which tensors are made again, by their recompute_seconds, in place of kept (none)"},
      {"--page", FlagShape::kValue, "BYTES", "page size: a power of two from 4KiB to 64MiB (2MiB)"},
      {"--iterations", FlagShape::kValue, "N", "2 to 1000 (3); the second half counts"},
      {"--prefetch-ops", FlagShape::kValue, "N", "ops ahead that are fetched for (12)"},
      {"--ask-ahead", FlagShape::kSwitch, "", "each op is asked for when the one before it begins"},
      {"--serial", FlagShape::kSwitch, "", "latency occupies the link"},
      {"--trace", FlagShape::kValue, "FILE", "a timeline for Perfetto; of one policy"},
      {"--json", FlagShape::kSwitch, "", "one JSON object per line, one per policy"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

absl::StatusOr<std::vector<std::string>> ReadPolicies(const Arguments& arguments) {
  const bool traffic = arguments.Value("--objective") == "traffic";
  const std::vector<std::string> names =
      absl::StrSplit(arguments.Value("--policy", traffic ? "planned" : "planned,min,lru"), ',');
  std::set<std::string> seen;
  for (const std::string& name : names) {
    const auto policy = core::CreatePolicy(name);
    if (!policy.ok()) return base::Annotate(policy.status(), "--policy");
    if (seen.insert(name).second) continue;
    return absl::InvalidArgumentError(fmt::format("--policy: {} is named twice", name));
  }
  return names;
}

/// Reads the objective. The policy that plans is the only one with a choice.
absl::StatusOr<core::Objective> ReadObjective(const Arguments& arguments, const RunFlags& flags) {
  const std::string name = arguments.Value("--objective", "time");
  if (name == "time") return core::Objective::kTime;
  if (name != "traffic") {
    return absl::InvalidArgumentError(
        fmt::format("--objective: \"{}\" is neither time nor traffic", name));
  }
  for (const std::string& policy : flags.policies) {
    const auto created = core::CreatePolicy(policy);
    if (created.ok() && (*created)->planned()) continue;
    return absl::InvalidArgumentError(fmt::format(
        "--objective traffic: policy {} makes no plans, so it has no choice; use --policy planned",
        policy));
  }
  return core::Objective::kTraffic;
}

absl::StatusOr<LabRecompute> ReadRecompute(const Arguments& arguments) {
  const std::string name = arguments.Value("--recompute", "none");
  if (name == "none") return LabRecompute::kNone;
  if (name == "all") return LabRecompute::kAll;
  if (name == "planned") return LabRecompute::kPlanned;
  return absl::InvalidArgumentError(
      fmt::format("--recompute: \"{}\" is neither none nor all nor planned", name));
}

/// Reads the path of the trace, which has to show one policy.
absl::StatusOr<std::string> ReadTrace(const Arguments& arguments, const RunFlags& flags) {
  if (!arguments.Has("--trace")) return std::string();
  const NamedPath trace{"--trace", arguments.Value("--trace")};
  const NamedPath schedule{"SCHEDULE", flags.path};
  SLUICE_RETURN_IF_ERROR(CheckOutputs({&trace, 1}, {&schedule, 1}));
  if (flags.policies.size() == 1) return trace.path;
  return absl::InvalidArgumentError(fmt::format(
      "--trace: a timeline shows one policy; name one, as --policy {}", flags.policies.front()));
}

absl::Status ReadNumbers(const Arguments& arguments, RunFlags* flags) {
  SLUICE_ASSIGN_OR_RETURN(flags->page_bytes, ReadPageFlag(arguments, kDefaultPage));
  SLUICE_RETURN_IF_ERROR(
      ReadNumber(arguments, "--iterations", kIterationsRange, &flags->iterations));
  return ReadNumber(arguments, "--prefetch-ops", kPrefetchOpsRange, &flags->prefetch_ops);
}

}  // namespace

absl::StatusOr<RunFlags> ReadRunFlags(std::span<const std::string> words) {
  SLUICE_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, RunFlagSpecs()));
  RunFlags flags;
  flags.path = arguments.Value("SCHEDULE");
  if (flags.path.empty()) {
    return absl::InvalidArgumentError(
        "SCHEDULE is required: name a file as `sluice train --record` writes");
  }
  if (!arguments.Has("--tiers")) {
    return absl::InvalidArgumentError("--tiers is required, as hbm=40GiB,dram=128GiB");
  }
  if (arguments.Has("--key")) flags.key = arguments.Value("--key");
  flags.ask_ahead = arguments.Has("--ask-ahead");
  if (arguments.Has("--json")) flags.mode = Console::Mode::kJson;
  SLUICE_ASSIGN_OR_RETURN(
      flags.machine,
      ParseMachine(
          arguments.Value("--tiers"), arguments.Values("--link"), arguments.Has("--serial")));
  SLUICE_ASSIGN_OR_RETURN(flags.policies, ReadPolicies(arguments));
  SLUICE_ASSIGN_OR_RETURN(flags.objective, ReadObjective(arguments, flags));
  SLUICE_ASSIGN_OR_RETURN(flags.recompute, ReadRecompute(arguments));
  SLUICE_RETURN_IF_ERROR(ReadNumbers(arguments, &flags));
  SLUICE_ASSIGN_OR_RETURN(flags.trace, ReadTrace(arguments, flags));
  return flags;
}

std::string RunHelpText() {
  return "Usage: sluice lab run SCHEDULE --tiers TIERS --link LINK ... [FLAG ...]\n\n"
         "Runs a schedule on a machine in virtual time, with the scheduler that a Runtime has,\n"
         "under each policy. A tier that only a link names, as nvme by\n"
         "--link dram-nvme=3.2GiB/s,50us, is as large as needed. BOTH is what both directions\n"
         "carry together while both run; with half they share IN. Policies: docs/policies.md.\n\n" +
         DescribeFlags(RunFlagSpecs());
}

}  // namespace sluice::tools
