#include "runtime/engine/report/repeated_failures.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::engine {
namespace {

/// The text behind the last colon: the errno, and no page.
std::string LastPartOf(const absl::Status& cause) {
  const std::string message(base::ToStd(cause.message()));
  const std::size_t colon = message.rfind(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

/// The text with one sign for each word that has a digit, as checksums and offsets do.
std::string WithoutNumbers(const std::string& text) {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  std::string kind;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end])) != 0) ++end;
    const std::string word = text.substr(at, end - at);
    kind += std::any_of(word.begin(), word.end(), is_digit) ? "#" : word;
    if (end < text.size()) kind += text[end++];
    at = end;
  }
  return kind;
}

}  // namespace

bool RepeatedFailures::IsFirst(const std::string& place, const absl::Status& cause) {
  const std::string last = LastPartOf(cause);
  Kind& kind = kinds_[{place, WithoutNumbers(last)}];
  if (kind.count == 0) kind.first = last;
  return ++kind.count == 1;
}

std::vector<std::string> RepeatedFailures::Take() {
  std::vector<std::string> lines;
  for (const auto& [key, kind] : std::exchange(kinds_, {})) {
    if (kind.count < 2) continue;
    lines.push_back(fmt::format("{}: {}, and {} like it", key.first, kind.first, kind.count - 1));
  }
  return lines;
}

}  // namespace sluice::engine
