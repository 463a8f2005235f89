#include "bench/store/system/fio.h"

#include <unistd.h>

#include <algorithm>

#include "base/status.h"
#include "base/strings.h"
#include "bench/store/system/page_buffers.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

namespace sluice::bench {
namespace {

using Json = nlohmann::json;

/// Time of fio's start, and of its last requests on a slow disk.
constexpr double kSecondsMore = 60;
constexpr double kVersionSeconds = 5;

std::string_view PatternWord(const Case& which) {
  const bool random = which.pattern == Pattern::kRandom;
  switch (which.direction) {
    case Direction::kRead:
      return random ? "randread" : "read";
    case Direction::kWrite:
      return random ? "randwrite" : "write";
    case Direction::kMix:
      break;
  }
  return random ? "randrw" : "rw";
}

std::string FileNames(const std::vector<int>& fds) {
  const std::string prefix = fmt::format("/proc/{}/fd/", getpid());
  return fds.empty() ? "" : prefix + fmt::format("{}", fmt::join(fds, ":" + prefix));
}

/// Order of the files, as our slots lie: one file after the other, or at random.
std::string_view FileOrder(const Case& which) {
  return which.pattern == Pattern::kRandom ? "random" : "sequential";
}

/// The number, or 0 if it is missing. The caller then finds it too little.
double Number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

absl::Status BadOutput(std::string_view why, std::string_view output) {
  constexpr std::size_t kTail = 300;
  const std::size_t from = output.size() > kTail ? output.size() - kTail : 0;
  return absl::InternalError(base::ToAbsl(fmt::format("fio: {}: {}", why, output.substr(from))));
}

/// The first job of the report, or null.
Json FirstJob(std::string_view output) {
  const std::size_t first = output.find("{\n");
  const std::size_t last = output.rfind('}');
  if (first == std::string_view::npos || last == std::string_view::npos || last < first) return {};
  const Json report = Json::parse(output.substr(first, last - first + 1), nullptr, false);
  if (!report.is_object()) return {};
  const auto jobs = report.find("jobs");
  if (jobs == report.end() || !jobs->is_array() || jobs->empty()) return {};
  return jobs->front();
}

}  // namespace

std::vector<std::string> FioCommand(const FioJob& job) {
  std::vector<std::string> words = {
      job.program,
      "--name=sluice-bench",
      "--filename=" + FileNames(job.file_fds),
      "--ioengine=" + job.io_engine,
      fmt::format("--direct={}", job.buffered ? 0 : 1),
      fmt::format("--rw={}", PatternWord(job.load.which)),
      fmt::format("--bs={}", job.load.which.page_bytes),
      fmt::format("--size={}", job.load.file_bytes),
      fmt::format("--file_service_type={}", FileOrder(job.load.which)),
      fmt::format("--iodepth={}", job.load.depth),
      fmt::format("--runtime={}ms", job.load.milliseconds),
      "--output-format=json",
      fmt::format("--buffer_pattern=\"{}\"", kContent),
      // fio leaves the buffers as they are before each write. New content would cost it time and
      // CPU that we do not spend, and the ceiling is the speed of the disk. A pattern makes a mix
      // refill the buffers, unless a later word forbids it.
      "--scramble_buffers=0",
      "--refill_buffers=0",
      // fio chooses the reads of a mix at random, by default with the same numbers in each run.
      // Only 48 % of the requests of the first second are reads then.
      "--randrepeat=0",
      // fio neither lays the file out again nor spends time on figures that nobody reads.
      "--overwrite=1",
      "--fallocate=none",
      "--eta=never",
      "--disk_util=0",
      "--clocksource=clock_gettime",
      "--mem=mmaphuge",
      "--hugepage-size=2m"};
  words.emplace_back(job.buffered ? "--end_fsync=1" : "--time_based");
  return words;
}

absl::StatusOr<Sample> ParseFio(std::string_view output) {
  const Json job = FirstJob(output);
  if (!job.is_object()) return BadOutput("its report cannot be read", output);
  if (Number(job, "error") != 0) return BadOutput("the job failed", output);
  double bytes = 0;
  double milliseconds = 0;
  for (const char* const direction : {"read", "write"}) {
    const auto found = job.find(direction);
    if (found == job.end() || !found->is_object()) continue;
    bytes += Number(*found, "io_bytes");
    milliseconds = std::max(milliseconds, Number(*found, "runtime"));
  }
  if (bytes <= 0 || milliseconds <= 0) return BadOutput("it moved nothing", output);
  const double cpu_share = (Number(job, "usr_cpu") + Number(job, "sys_cpu")) / 100;
  return Sample{.bytes = static_cast<std::uint64_t>(bytes),
                .seconds = milliseconds / 1000,
                .cpu_seconds = cpu_share * Number(job, "job_runtime") / 1000};
}

absl::StatusOr<Sample> RunFio(const FioJob& job, const InterruptedFn& interrupted) {
  const std::vector<std::string> words = FioCommand(job);
  SLUICE_ASSIGN_OR_RETURN(const ChildOutput output,
                          RunChild({.words = words,
                                    .interrupted = interrupted,
                                    .seconds_max = job.load.milliseconds / 1e3 + kSecondsMore}));
  if (output.exit_code != 0) {
    return BadOutput(fmt::format("exit code {}", output.exit_code), output.text);
  }
  return ParseFio(output.text);
}

absl::Status CheckFio(const std::string& program, const InterruptedFn& interrupted) {
  const std::vector<std::string> words = {program, "--version"};
  const absl::StatusOr<ChildOutput> output =
      RunChild({.words = words, .interrupted = interrupted, .seconds_max = kVersionSeconds});
  const absl::Status& status = output.status();
  // A program that timed out or was cancelled has started, so it exists.
  if (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status)) return status;
  if (output.ok() && output->exit_code == 0) return absl::OkStatus();
  const std::string why = output.ok() ? fmt::format("--version: exit code {}", output->exit_code)
                                      : std::string(base::ToStd(status.message()));
  return absl::FailedPreconditionError(base::ToAbsl(
      fmt::format("\"{}\" cannot be run ({}); it measures what the disk can give: install the "
                  "package fio (apt-get install fio, or scripts/setup.sh test)",
                  program,
                  why)));
}

}  // namespace sluice::bench
