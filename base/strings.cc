#include "base/strings.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "base/names/common_names.h"

namespace sluice::base {
namespace {

/// Letters of a name that tell which is meant.
constexpr std::size_t kBeginningMin = 3;

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

/// Letters of the sections that both names begin with, dots included.
std::size_t CommonSections(std::string_view a, std::string_view b) {
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  const std::size_t dot = a.substr(0, static_cast<std::size_t>(differ - a.begin())).rfind('.');
  return dot == std::string_view::npos ? 0 : dot + 1;
}

/// Names are near up to about a third of the longer one's letters. A section that both have says
/// nothing.
bool IsNear(std::string_view a, std::string_view b) {
  const std::size_t sections = CommonSections(a, b);
  a.remove_prefix(sections);
  b.remove_prefix(sections);
  return EditDistance(a, b) <= (std::max(a.size(), b.size()) + 2) / 3;
}

}  // namespace

std::string NearestName(std::string_view name, std::span<const std::string> candidates) {
  const std::size_t dashes = std::min(name.find_first_not_of('-'), name.size());
  const auto longer = std::find_if(candidates.begin(), candidates.end(), [&](const auto& each) {
    return name.size() - dashes >= kBeginningMin && each.starts_with(name);
  });
  if (longer != candidates.end()) return *longer;
  const auto nearest = std::min_element(
      candidates.begin(), candidates.end(), [&](const std::string& a, const std::string& b) {
        return EditDistance(name, a) < EditDistance(name, b);
      });
  return nearest == candidates.end() || !IsNear(name, *nearest) ? std::string() : *nearest;
}

std::string DidYouMean(std::string_view name, std::span<const std::string> candidates) {
  const std::string ours = OurName(name, candidates);
  const std::string nearest = ours.empty() ? NearestName(name, candidates) : ours;
  return nearest.empty() ? nearest : "; did you mean \"" + nearest + "\"?";
}

std::string Counted(std::uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string ShellWord(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string word = "'";
  for (const char letter : text)
    word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return word + "'";
}

}  // namespace sluice::base
