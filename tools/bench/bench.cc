#include "tools/bench/bench.h"

#include <array>

#include "tools/support/sub_command.h"

namespace sluice::tools {

int RunBench(std::span<const std::string> words) {
  constexpr std::array kCommands = {
      SubCommand{"store", "the page store against fio on the same disk", RunBenchStore},
      SubCommand{"optim", "the optimizer kernels against memory", RunBenchOptim},
      SubCommand{"device", "pages between dram and hbm against plain copies", RunBenchDevice},
      SubCommand{"step", "steps of optimizers whose states are on nvme", RunBenchStep},
  };
  return RunSubCommand("sluice bench", kCommands, words);
}

}  // namespace sluice::tools
