#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::numa {

/// Small text files of proc and sys. A file that is not there, or holds something else, gives none.

std::optional<std::uint64_t> ParseNumber(std::string_view text);

/// The first word of the file as a number.
std::optional<std::uint64_t> ReadNumber(const std::string& path);

/// The words of the first line that begins with `key`, the key itself left out.
std::vector<std::string> ReadFields(const std::string& path, std::string_view key);

/// The first word of ReadFields as a number.
std::optional<std::uint64_t> ReadField(const std::string& path, std::string_view key);

}  // namespace sluice::numa
