// A Runtime that insists on features of the machine, and takes no more of it than it may: which
// fallbacks would be taken, processors, threads, requests, disk space, and memory for schedules.
#include <sched.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;
using sluice::RuntimeOptions, sluice::Use;

volatile std::sig_atomic_t interrupted = 0;

RuntimeOptions Small() {
  RuntimeOptions options;
  options.page_bytes = 64_KiB;
  options.dram_bytes = 4_MiB;
  options.nvme_bytes = 8_MiB;
  return options;
}

/// A feature by the name of its fallback, and the option that decides on it.
struct Feature {
  const char* fallback;
  Use& (*option)(RuntimeOptions& options);
};
constexpr std::array kFeatures = {
    Feature{"io_uring", [](RuntimeOptions& o) -> Use& { return o.io.io_uring; }},
    Feature{"o_direct", [](RuntimeOptions& o) -> Use& { return o.io.direct; }},
    Feature{"nocow", [](RuntimeOptions& o) -> Use& { return o.io.nocow; }},
    Feature{"reserved_space", [](RuntimeOptions& o) -> Use& { return o.io.reserved_space; }},
    Feature{"huge_pages", [](RuntimeOptions& o) -> Use& { return o.memory.huge_pages; }},
    Feature{"numa_binding", [](RuntimeOptions& o) -> Use& { return o.memory.numa_binding; }},
    Feature{"numa_split", [](RuntimeOptions& o) -> Use& { return o.memory.even_split; }},
};

/// Insists on a feature. True if it is there without a fallback, or Create has refused.
bool Require(const Feature& feature) {
  RuntimeOptions options = Small();
  feature.option(options) = Use::kRequire;
  const auto runtime = sluice::Runtime::Create(options);
  std::printf(
      "%s: %s\n", feature.fallback, runtime.ok() ? "there" : runtime.status().ToString().c_str());
  if (!runtime.ok()) return absl::IsFailedPrecondition(runtime.status());
  bool right = true;
  for (const sluice::FallbackEvent& event : (*runtime)->GetStats().fallbacks) {
    right = right && event.what != feature.fallback;
  }
  return right;
}

/// Options of a program that shares the machine with others.
RuntimeOptions Modest() {
  RuntimeOptions options = Small();
  options.cpus = {sched_getcpu()};                 // processors of all internal threads
  options.worker_threads = 1;                      // they hash and verify
  options.request_queue_capacity = 64;             // tickets beyond it are just not ready yet
  options.io.queue_depth = 8;                      // requests in flight
  options.io.bytes_in_flight = 4_MiB;              // others wait for these
  options.io.merge = 0_B;                          // each page is a request of its own
  options.io.keep_free = 64_MiB;                   // space of the file system that others may need
  options.io.io_uring = Use::kOff;                 // threads in its place, to compare
  options.schedules_max = 1;                       // the schedule of one key is kept
  options.recorded_accesses_max = 16;              // longer iterations are not recorded
  options.memory.off_lease = Use::kRequire;        // concerns tensors with OffLease::kReadable
  options.stop = [] { return interrupted != 0; };  // ends a Create that takes long
  return options;
}

/// Runs an iteration of so many ops.
void Iterate(sluice::Runtime& runtime, sluice::TensorId tensor, const char* key, int ops) {
  Check(runtime.BeginIteration(key));
  for (int i = 0; i < ops; ++i) {
    sluice::Op op = runtime.BeginOp({.name = "op"});
    Check(op.Acquire({.tensor = tensor}));
  }
  Check(runtime.EndIteration());
}

}  // namespace

int main() {
  std::signal(SIGINT, [](int) { interrupted = 1; });
  bool right = true;
  for (const Feature& feature : kFeatures) right = Require(feature) && right;

  RuntimeOptions options = Modest();
  const auto runtime = Check(sluice::Runtime::Create(options));
  bool off = false;
  for (const sluice::FallbackEvent& event : runtime->GetStats().fallbacks) {
    off = off || (event.what == "io_uring" && event.reason == sluice::kOffByOption);
    std::printf(
        "%s in place of %s: %s\n", event.chosen.c_str(), event.what.c_str(), event.reason.c_str());
  }
  const sluice::TensorId tensor = Check(runtime->CreateTensor({.name = "t", .shape = {1 << 14}}));
  Iterate(*runtime, tensor, "short", 4);
  Iterate(*runtime, tensor, "other", 4);
  Iterate(*runtime, tensor, "long", 40);
  const sluice::Stats stats = runtime->GetStats();
  std::printf("%ju schedules dropped, %ju iterations too long\n",
              std::uintmax_t{stats.schedules_dropped},
              std::uintmax_t{stats.iterations_too_long});

  options.io.keep_free = 1_GiB * (1 << 30);  // no disk has that
  const absl::Status full = sluice::Runtime::Create(options).status();
  std::printf("%s\n", full.ToString().c_str());
  return right && off && stats.schedules_dropped >= 1 && stats.iterations_too_long == 1 &&
                 absl::IsResourceExhausted(full)
             ? 0
             : 1;
}
