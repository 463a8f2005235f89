#include "numa/text_files.h"

#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "base/strings.h"

namespace sluice::numa {

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t value = 0;
  if (!absl::SimpleAtoi(base::ToAbsl(text), &value)) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return ParseNumber(word);
}

std::vector<std::string> ReadFields(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(key, 0) != 0) continue;
    std::istringstream words(line.substr(key.size()));
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    return fields;
  }
  return {};
}

std::optional<std::uint64_t> ReadField(const std::string& path, std::string_view key) {
  const std::vector<std::string> fields = ReadFields(path, key);
  return fields.empty() ? std::nullopt : ParseNumber(fields[0]);
}

}  // namespace sluice::numa
