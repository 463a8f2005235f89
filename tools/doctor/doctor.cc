#include "tools/doctor/doctor.h"

#include <array>
#include <iostream>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/thread.h"
#include "fmt/format.h"
#include "tools/doctor/facts.h"
#include "tools/doctor/spill_place.h"
#include "tools/support/arguments.h"
#include "tools/support/exit_code.h"
#include "tools/train/settings/budget_check.h"
#include "tools/train/settings/memory_check.h"
#include "tools/train/settings/train_flags.h"

namespace sluice::tools {
namespace {

const std::array<FlagSpec, 5>& Flags() {
  static const std::array<FlagSpec, 5> kFlags = {
      FlagSpec{.name = "--json", .help = "one JSON object per section, one per line"},
      FlagSpec{.name = "--measure", .help = "measure the links, too: about two seconds"},
      FlagSpec{.name = "--directory",
               .shape = FlagShape::kValue,
               .value_name = "DIR",
               .help = "the spill directory to look at (default: that of the job, or else "
                       "/var/tmp/sluice-<uid>)"},
      FlagSpec{.name = "--config",
               .shape = FlagShape::kValue,
               .value_name = "FILE",
               .help = "a job of sluice train: budgets are proposed for it"},
      FlagSpec{.name = "--set",
               .shape = FlagShape::kRepeated,
               .value_name = "KEY=VALUE",
               .help = "overrides a key of --config"}};
  return kFlags;
}

std::string HelpText() {
  return "Usage: sluice doctor [--json] [--measure] [--directory DIR] [--config FILE]\n"
         "                     [--set KEY=VALUE]\n\n"
         "Reports what this machine offers, what sluice will use, and why not more.\n\n" +
         DescribeFlags(Flags());
}

enum class Format { kText, kJson };

class Report {
 public:
  Report(std::ostream& out, Format format) : out_(out), format_(format) {}
  void Print(const Section& section) {
    out_ << (format_ == Format::kJson ? section.ToJson() : section.ToText()) << "\n" << std::flush;
  }

 private:
  std::ostream& out_;
  const Format format_;
};

/// The job of --config, or one of which nothing is known.
absl::Status ReadJob(const Arguments& arguments, Facts* facts) {
  const std::string config = arguments.Value("--config");
  if (!arguments.Has("--config")) {
    if (arguments.Has("--set")) return absl::InvalidArgumentError("--set needs --config FILE");
    facts->needs.compute_threads = base::AllowedCpuCount();
    return absl::OkStatus();
  }
  std::vector<std::string> words = {"--config", config};
  for (const std::string& assignment : arguments.Values("--set")) {
    words.insert(words.end(), {"--set", assignment});
  }
  SLUICE_ASSIGN_OR_RETURN(const TrainFlags flags, ReadTrainFlags(words));
  SLUICE_ASSIGN_OR_RETURN(facts->needs, FindNeeds(flags));
  facts->job = config;
  facts->job_fits = CheckBudgets(flags.settings);
  if (facts->job_fits->ok()) facts->job_fits = CheckMemory(flags);
  return absl::OkStatus();
}

/// Returns why the spill directory cannot be used.
absl::Status PrintFacts(const SpillPlace& spill, Facts facts, Report& report) {
  facts.cpu = ReadCpu();
  report.Print(DescribeCpu(facts.cpu));
  facts.compute = ReadCompute();
  report.Print(DescribeCompute(facts.compute));
  facts.topology = numa::DiscoverTopology();
  report.Print(DescribeNuma(facts.topology));
  facts.dram_nodes = ReadDramNodes(facts.topology);
  facts.limits = numa::ReadMemoryLimits();
  report.Print(DescribeMemory(facts.limits));
  report.Print(DescribeLimits(facts.limits));
  const bool limited = facts.limits.ok();
  facts.huge_pages = ReadHugePages("", limited ? facts.limits->measuring_bytes() : UINT64_MAX);
  report.Print(DescribeHugePages(facts.huge_pages));
  facts.io_uring = ReadIoUring();
  report.Print(DescribeIoUring(facts.io_uring));
  facts.spill = ReadSpill(spill.path(), facts.needs.runtime);
  facts.spill.directory = spill.used();
  if (facts.spill.status.ok()) {
    facts.spill.status = CheckDirectories(spill.path(), facts.needs.runtime);
  }
  report.Print(DescribeSpill(facts.spill));
  if (facts.job_fits.has_value()) facts.job_fits->Update(facts.spill.status);
  facts.gpu = ReadGpu();
  report.Print(DescribeGpu(facts.gpu));
  report.Print(DescribeChoices(facts));
  return facts.spill.status;
}

int FailTo(std::ostream& err, const absl::Status& status) {
  err << "sluice: " << status.message() << "\n";
  return ExitCodeOf(status);
}

}  // namespace

int RunDoctor(std::span<const std::string> args, DoctorStreams streams) {
  if (AsksForHelp(args)) {
    streams.out << HelpText();
    return kExitDone;
  }
  const auto arguments = Arguments::Parse(args, Flags());
  if (!arguments.ok()) return FailTo(streams.err, arguments.status());
  Facts facts;
  const absl::Status job = ReadJob(*arguments, &facts);
  if (!job.ok()) return FailTo(streams.err, job);
  IoOptions& io = facts.needs.runtime.io;
  if (arguments->Has("--directory")) io.more_directories.clear();
  const SpillPlace spill(arguments->Value("--directory", io.directory));
  Report report(streams.out, arguments->Has("--json") ? Format::kJson : Format::kText);
  const absl::Status usable = PrintFacts(spill, std::move(facts), report);
  if (!usable.ok()) return FailTo(streams.err, usable);
  if (!arguments->Has("--measure")) return kExitDone;
  const auto measured = MeasureLinks(spill.path());
  if (!measured.ok()) return FailTo(streams.err, measured.status());
  report.Print(*measured);
  return kExitDone;
}

int RunDoctor(std::span<const std::string> args) {
  return RunDoctor(args, {.out = std::cout, .err = std::cerr});
}

}  // namespace sluice::tools
