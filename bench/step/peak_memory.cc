#include "bench/step/peak_memory.h"

#include <fstream>
#include <string>

namespace sluice::bench {
namespace {

/// A field of /proc/self/status, which has kilobytes.
std::optional<std::uint64_t> ReadStatus(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":")) return std::stoull(line.substr(field.size() + 1)) << 10;
  }
  return std::nullopt;
}

/// "5" resets the peak to the memory held now (proc(5)).
bool ResetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

}  // namespace

PeakMemory::PeakMemory() {
  if (ResetPeak()) start_ = ReadStatus("VmRSS");
}

std::optional<std::uint64_t> PeakMemory::Bytes() const {
  const std::optional<std::uint64_t> peak = ReadStatus("VmHWM");
  if (!start_.has_value() || !peak.has_value()) return std::nullopt;
  return *peak > *start_ ? *peak - *start_ : 0;
}

}  // namespace sluice::bench
