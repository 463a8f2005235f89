#include "workloads/gpt/training/recompute.h"

#include <algorithm>
#include <cstddef>

#include "fmt/format.h"

namespace sluice::gpt {
namespace {

/// "0-2,5": runs of the layers that are recomputed.
std::string Layers(const RecomputeChoice& choice) {
  std::string text;
  for (std::size_t first = 0; first < choice.size(); ++first) {
    if (!choice[first]) continue;
    std::size_t last = first;
    while (last + 1 < choice.size() && choice[last + 1]) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last > first) text += fmt::format("-{}", last);
    first = last;
  }
  return text;
}

}  // namespace

absl::StatusOr<Recompute> ParseRecompute(std::string_view name) {
  if (name == "none") return Recompute::kNone;
  if (name == "all") return Recompute::kAll;
  if (name == "planned") return Recompute::kPlanned;
  return absl::InvalidArgumentError(fmt::format(
      "\"train.recompute\" is \"{}\"; allowed are \"none\", \"all\", \"planned\"", name));
}

std::string KeySuffix(const RecomputeChoice& choice) {
  const auto count = std::count(choice.begin(), choice.end(), true);
  if (count == 0) return "";
  if (count == static_cast<std::ptrdiff_t>(choice.size())) return ".recompute";
  return ".recompute." + Layers(choice);
}

}  // namespace sluice::gpt
