#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temp_directory.h"

namespace sluice::tools {

/// A directory of the test's own, removed with everything in it.
class TemporaryDirectory : public testing::TempDirectory {
 public:
  std::string operator/(std::string_view name) const { return path() + "/" + std::string(name); }

  /// Writes a file into the directory. Returns the file's path.
  std::string Write(std::string_view name, std::string_view content) const {
    const std::string file = *this / name;
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

  /// Names of the directory's entries, sorted.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

inline std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace sluice::tools
