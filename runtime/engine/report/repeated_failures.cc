#include "runtime/engine/report/repeated_failures.h"

#include <utility>

#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::engine {
namespace {

/// What follows the last colon: the errno, and no page.
std::string KindOf(const absl::Status& cause) {
  const std::string message(base::ToStd(cause.message()));
  const std::size_t colon = message.rfind(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

}  // namespace

bool RepeatedFailures::IsFirst(const std::string& place, const absl::Status& cause) {
  return ++counts_[{place, KindOf(cause)}] == 1;
}

std::vector<std::string> RepeatedFailures::Take() {
  std::vector<std::string> lines;
  for (const auto& [kind, count] : std::exchange(counts_, {})) {
    if (count < 2) continue;
    lines.push_back(fmt::format("{}: {}, and {} like it", kind.first, kind.second, count - 1));
  }
  return lines;
}

}  // namespace sluice::engine
