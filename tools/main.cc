#include <malloc.h>
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "tools/bench/bench.h"
#include "tools/doctor/doctor.h"
#include "tools/lab/lab.h"
#include "tools/state/state.h"
#include "tools/support/exit_code.h"
#include "tools/support/standard_streams.h"
#include "tools/support/sub_command.h"
#include "tools/train/train.h"
#include "tools/weights/weights.h"

namespace sluice::tools {
namespace {

int PrintVersion(std::span<const std::string> /*words*/) {
  fmt::print("sluice {}\n", SLUICE_VERSION);
  return kExitDone;
}

constexpr std::array kSubCommands = {
    SubCommand{"train", "train the byte-level GPT on any text under given budgets", RunTrain},
    SubCommand{"doctor", "what this machine offers and what sluice will use", RunDoctor},
    SubCommand{"state", "saves of optimizers as safetensors files, and back", RunState},
    SubCommand{"weights", "checkpoints in safetensors files: listed, summed, checked", RunWeights},
    SubCommand{"lab", "schedules of training and inference, looked at", RunLab},
    SubCommand{"bench", "the project's benchmarks, each against a ceiling", RunBench},
    SubCommand{"--version", "the version", PrintVersion},
};

/// Each thread's heap would reserve 64 MiB of addresses, which are what RLIMIT_AS counts.
void ShareHeapsUnderLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
}

/// Exit code after a check of standard output. Text that did not reach it is lost, which "done"
/// would hide.
int CheckOutput(int exit_code) {
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!lost || exit_code != kExitDone) return exit_code;
  PrintError("standard output could not be written");
  return kExitDeviceFailure;
}

}  // namespace
}  // namespace sluice::tools

int main(int argc, char** argv) {
  if (!sluice::tools::OpenStandardStreams()) return sluice::tools::kExitDeviceFailure;
  sluice::tools::ShareHeapsUnderLimit();
  // A file past `ulimit -f` is then an error like another, told with its name, and tidied up after.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> words(argv + 1, argv + argc);
  return sluice::tools::CheckOutput(
      sluice::tools::RunSubCommand("sluice", sluice::tools::kSubCommands, words));
}
