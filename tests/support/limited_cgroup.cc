#include "tests/support/limited_cgroup.h"

#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

/// The directory of this process's memory cgroup: of version 1, or of version 2.
std::optional<fs::path> OwnMemoryCgroup() {
  std::ifstream lines("/proc/self/cgroup");
  std::optional<fs::path> unified;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t controllers = line.find(':') + 1;
    const std::size_t path = line.find(':', controllers) + 1;
    const std::string names = line.substr(controllers, path - controllers - 1);
    if (names == "memory") return fs::path("/sys/fs/cgroup/memory" + line.substr(path));
    if (names.empty()) unified = fs::path("/sys/fs/cgroup" + line.substr(path));
  }
  return unified;
}

}  // namespace

LimitedCgroup::LimitedCgroup(std::uint64_t bytes) {
  const std::optional<fs::path> own = OwnMemoryCgroup();
  if (!own.has_value()) return;
  path_ = *own / ("sluice-test-" + std::to_string(getpid()));
  std::error_code error;
  made_ = fs::create_directory(path_, error);
  for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
    if (!made_ || !fs::exists(path_ / name, error)) continue;
    std::ofstream file(path_ / name);
    file << bytes << std::endl;
    limited_ = file.good();
  }
}

std::string LimitedCgroup::Describe() const {
  std::ostringstream text;
  for (const char* name : {"memory.max_usage_in_bytes",
                           "memory.failcnt",
                           "memory.oom_control",
                           "memory.peak",
                           "memory.events",
                           "memory.stat"}) {
    std::ifstream file(path_ / name);
    if (file) text << "\n" << name << ": " << file.rdbuf();
  }
  return text.str();
}

LimitedCgroup::~LimitedCgroup() {
  if (made_) rmdir(path_.c_str());
}

}  // namespace sluice::testing
