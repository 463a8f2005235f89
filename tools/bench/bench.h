#pragma once

#include <span>
#include <string>

namespace sluice::tools {

/// `sluice bench SUB-COMMAND [FLAG ...]`: runs one of the project's benchmarks. Returns the exit
/// code.
int RunBench(std::span<const std::string> words);

/// `sluice bench store`: the page store against fio.
int RunBenchStore(std::span<const std::string> words);

/// `sluice bench optim`: the optimizer kernels against memory.
int RunBenchOptim(std::span<const std::string> words);

/// `sluice bench device`: leases in hbm against plain copies of the same device.
int RunBenchDevice(std::span<const std::string> words);

/// `sluice bench step`: whole steps of optimizers against disk and memory.
int RunBenchStep(std::span<const std::string> words);

}  // namespace sluice::tools
