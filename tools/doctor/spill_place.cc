#include "tools/doctor/spill_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "fmt/format.h"

namespace sluice::tools {
namespace {

bool Exists(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

}  // namespace

SpillPlace::SpillPlace(const std::string& named, const std::string& parent)
    : used_(named.empty() ? fmt::format("{}/sluice-{}", parent, geteuid()) : named), path_(used_) {
  if (!named.empty() || Exists(used_)) return;
  std::string stand_in = used_ + "-doctor-XXXXXX";
  // The default directory stays if none can be made: looking at it says why.
  if (mkdtemp(stand_in.data()) != nullptr) path_ = stand_in;
}

SpillPlace::~SpillPlace() {
  if (path_ != used_) rmdir(path_.c_str());
}

}  // namespace sluice::tools
