#include "runtime/engine/data/sole_copies.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "fmt/format.h"

namespace sluice::engine {
namespace {

/// Most tensors that a message names.
constexpr std::size_t kNamedMax = 8;

}  // namespace

std::vector<SoleCopy> SoleCopiesIn(const PageOwners& owners, const std::vector<PageIndex>& pages) {
  std::vector<SoleCopy> copies;
  std::unordered_map<const TensorInfo*, std::size_t> places;
  for (const PageIndex page : pages) {
    owners.Owner(page)->ForEachTensorIn(page, [&](const TensorInfo& tensor, ByteRange range) {
      const auto [place, first] = places.try_emplace(&tensor, copies.size());
      if (first) copies.push_back({tensor.spec.name, 0});
      copies[place->second].bytes += range.bytes;
    });
  }
  return copies;
}

std::string Describe(const std::vector<SoleCopy>& copies) {
  if (copies.empty()) return "nothing is only there";
  std::string text = "only there:";
  const std::size_t named = std::min(copies.size(), kNamedMax);
  for (std::size_t i = 0; i < named; ++i) {
    text +=
        fmt::format("{} {} bytes of '{}'", i == 0 ? "" : ",", copies[i].bytes, copies[i].tensor);
  }
  if (copies.size() > named) text += fmt::format(" and of {} others", copies.size() - named);
  return text;
}

}  // namespace sluice::engine
