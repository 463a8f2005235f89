#include "runtime/optim/optimizer/layout.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "runtime/optim/save/shallow_json.h"

namespace sluice::optim {
namespace {

using Json = nlohmann::json;

/// Null where there is none.
Json At(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) ? object[key] : Json();
}

std::string InWords(const Json& json) {
  if (json.is_null()) return "nothing";
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Empty where both are the same.
std::string Compare(std::string_view what, const Json& saved, const Json& here) {
  if (saved == here) return "";
  return fmt::format("{} is {} in the save and {} here", what, InWords(saved), InWords(here));
}

/// Compares arrays by their sizes, then by the first pair of elements that differs.
template <typename Differ>
std::string CompareArrays(const std::string& what,
                          const Json& saved,
                          const Json& here,
                          const Differ& differ) {
  if (!saved.is_array() || !here.is_array() || saved.size() != here.size()) {
    return Compare("the number of " + what, saved.size(), here.size());
  }
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (std::string found = differ(i, saved[i], here[i]); !found.empty()) return found;
  }
  return "";
}

/// The first of the keys whose values differ, which `names` calls by words.
std::string CompareKeys(std::initializer_list<std::pair<const char*, std::string>> names,
                        const Json& saved,
                        const Json& here) {
  for (const auto& [key, name] : names) {
    if (std::string found = Compare(name, At(saved, key), At(here, key)); !found.empty()) {
      return found;
    }
  }
  return "";
}

std::string CompareParameters(const std::string& group, const Json& saved, const Json& here) {
  return CompareArrays(
      "parameters of group " + group,
      saved,
      here,
      [&](std::size_t i, const Json& theirs, const Json& ours) {
        const std::string name = InWords(At(ours, "name"));
        return CompareKeys({{"name", fmt::format("the name of parameter {} of group {}", i, group)},
                            {"type", "the type of " + name},
                            {"count", "the number of elements of " + name}},
                           theirs,
                           ours);
      });
}

std::string CompareGroups(const Json& saved, const Json& here) {
  return CompareArrays(
      "groups", saved, here, [](std::size_t i, const Json& theirs, const Json& ours) {
        const Json name = At(ours, "name");
        std::string found =
            Compare(fmt::format("the name of group {}", i), At(theirs, "name"), name);
        if (!found.empty()) return found;
        return CompareParameters(InWords(name), At(theirs, "parameters"), At(ours, "parameters"));
      });
}

}  // namespace

std::string LayoutDifference(const std::string& saved, const std::string& here) {
  if (saved == here) return "";
  const Json theirs = ParseShallowJson(saved), ours = ParseShallowJson(here);
  std::string found = CompareKeys(
      {{"optimizer", "its kind"}, {"state", "the type of its states"}, {"seed", "its seed"}},
      theirs,
      ours);
  if (found.empty()) found = CompareGroups(At(theirs, "groups"), At(ours, "groups"));
  if (found.empty() && theirs != ours) found = "the save has what is not known here";
  return found;
}

}  // namespace sluice::optim
