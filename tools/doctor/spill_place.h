#pragma once

#include <string>

namespace sluice::tools {

/// The spill directory that doctor looks at. If the default one does not exist, a directory of its
/// own beside it stands in, and is removed again. Doctor makes no default one, since removing it
/// would pull it away from a process that has just found it there.
class SpillPlace {
 public:
  /// `named` as in tiers.nvme.directory; the default directory lies in `parent`.
  explicit SpillPlace(const std::string& named, const std::string& parent = "/var/tmp");
  ~SpillPlace();
  SpillPlace(const SpillPlace&) = delete;
  SpillPlace& operator=(const SpillPlace&) = delete;

  /// The directory to look at.
  const std::string& path() const { return path_; }
  /// The one that a Runtime would use.
  const std::string& used() const { return used_; }

 private:
  std::string used_;
  std::string path_;
};

}  // namespace sluice::tools
