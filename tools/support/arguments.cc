#include "tools/support/arguments.h"

#include <algorithm>
#include <cstddef>

#include "base/names/common_names.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::tools {
namespace {

bool IsFlag(std::string_view word) { return word.starts_with("--") && word.size() > 2; }

/// A flag, or, where --set is one, a key that other programs have a flag for; else the way to the
/// list of flags.
std::string Suggestion(const std::string& name, std::span<const std::string> names) {
  const bool has_keys = std::find(names.begin(), names.end(), "--set") != names.end();
  const bool is_flag = !base::OurName(name, names).empty();
  const std::string_view key = has_keys && !is_flag ? base::OurKey(name) : std::string_view();
  if (key.empty()) {
    const std::string near = base::DidYouMean(name, names);
    return near.empty() ? " (--help lists the flags)" : near;
  }
  return fmt::format("; did you mean \"--set {}=...\"?", key);
}

absl::StatusOr<const FlagSpec*> FindSpec(const std::string& name, std::span<const FlagSpec> specs) {
  std::vector<std::string> names;
  for (const FlagSpec& spec : specs) {
    if (spec.shape == FlagShape::kWord) continue;
    if (spec.name == name) return &spec;
    names.push_back(spec.name);
  }
  return absl::InvalidArgumentError(
      fmt::format("unknown flag \"{}\"{}", name, Suggestion(name, names)));
}

absl::Status MissingValue(const FlagSpec& spec) {
  return absl::InvalidArgumentError(
      fmt::format("{} needs a value: {} {}", spec.name, spec.name, spec.value_name));
}

/// Number of the words after a flag that belong to it.
std::size_t CountValues(const FlagSpec& spec, std::span<const std::string> rest) {
  if (spec.shape == FlagShape::kSwitch) return 0;
  const auto next = std::find_if(rest.begin(), rest.end(), IsFlag);
  const auto words = static_cast<std::size_t>(next - rest.begin());
  return spec.shape == FlagShape::kList ? words : std::min<std::size_t>(words, 1);
}

/// The first word without a flag that is wanted still; null when there is none.
const FlagSpec* NextWord(const Arguments& arguments, std::span<const FlagSpec> specs) {
  for (const FlagSpec& spec : specs) {
    if (spec.shape == FlagShape::kWord && !arguments.Has(spec.name)) return &spec;
  }
  return nullptr;
}

std::string ShapeText(const FlagSpec& spec) {
  if (spec.shape == FlagShape::kSwitch || spec.shape == FlagShape::kWord) return spec.name;
  const std::string_view more = spec.shape == FlagShape::kList ? " ..." : "";
  return fmt::format("{} {}{}", spec.name, spec.value_name, more);
}

}  // namespace

absl::StatusOr<Arguments> Arguments::Parse(std::span<const std::string> words,
                                           std::span<const FlagSpec> specs) {
  Arguments arguments;
  while (!words.empty()) {
    const std::string& word = words.front();
    words = words.subspan(1);
    if (!IsFlag(word)) {
      if (const FlagSpec* const wanted = NextWord(arguments, specs)) {
        arguments.values_[wanted->name] = {word};
        continue;
      }
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" belongs to no flag (--help lists them)", word));
    }
    const std::size_t equals = word.find('=');
    SLUICE_ASSIGN_OR_RETURN(const FlagSpec* const spec, FindSpec(word.substr(0, equals), specs));
    if (spec->shape == FlagShape::kValue && arguments.Has(spec->name)) {
      return absl::InvalidArgumentError(spec->name + " is given twice; once is enough");
    }
    std::vector<std::string>& values = arguments.values_[spec->name];
    if (equals != std::string::npos) {
      if (spec->shape == FlagShape::kSwitch) {
        return absl::InvalidArgumentError(spec->name + " takes no value");
      }
      values.push_back(word.substr(equals + 1));
      continue;
    }
    const std::size_t count = CountValues(*spec, words);
    if (count == 0 && spec->shape != FlagShape::kSwitch) return MissingValue(*spec);
    values.insert(values.end(), words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count));
    words = words.subspan(count);
  }
  return arguments;
}

std::string Arguments::Value(const std::string& name, std::string otherwise) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return otherwise;
  return found->second.back();
}

std::vector<std::string> Arguments::Values(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

bool AsksForHelp(std::span<const std::string> words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "-h" || word == "--help";
  });
}

std::string DescribeFlags(std::span<const FlagSpec> specs) {
  std::string text = "Flags:\n";
  for (const FlagSpec& spec : specs) {
    text += fmt::format("  {:<22} {}\n", ShapeText(spec), spec.help);
  }
  return text;
}

}  // namespace sluice::tools
