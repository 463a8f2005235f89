#include "runtime/engine/setup/config_values.h"

#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace sluice::engine {
namespace {

template <typename T>
bool ConvertList(const toml::node& node, std::vector<T>* value) {
  const toml::array* const array = node.as_array();
  if (array == nullptr) return false;
  std::vector<T> items(array->size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!ConvertNode(*array->get(i), &items[i])) return false;
  }
  *value = std::move(items);
  return true;
}

template <typename T>
std::string WrittenList(const std::vector<T>& values) {
  std::vector<std::string> items;
  for (const T& value : values) items.push_back(Written(value));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

bool ConvertNode(const toml::node& node, bool* value) {
  if (!node.is_boolean()) return false;
  *value = node.as_boolean()->get();
  return true;
}

bool ConvertNode(const toml::node& node, std::int64_t* value) {
  if (!node.is_integer()) return false;
  *value = node.as_integer()->get();
  return true;
}

bool ConvertNode(const toml::node& node, double* value) {
  if (!node.is_number()) return false;
  // value<double>() has none where an integer is not exactly a double.
  *value = node.is_integer() ? static_cast<double>(node.as_integer()->get())
                             : node.as_floating_point()->get();
  return true;
}

bool ConvertNode(const toml::node& node, std::string* value) {
  if (!node.is_string()) return false;
  *value = node.as_string()->get();
  return true;
}

bool ConvertNode(const toml::node& node, Bytes* value) {
  if (node.is_integer() && node.as_integer()->get() >= 0) {
    *value = Bytes(static_cast<std::uint64_t>(node.as_integer()->get()));
    return true;
  }
  if (!node.is_string()) return false;
  const absl::StatusOr<Bytes> parsed = ParseBytes(node.as_string()->get());
  if (!parsed.ok()) return false;
  *value = *parsed;
  return true;
}

bool ConvertNode(const toml::node& node, std::vector<std::int64_t>* value) {
  return ConvertList(node, value);
}

bool ConvertNode(const toml::node& node, std::vector<std::string>* value) {
  return ConvertList(node, value);
}

std::string Written(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& typed) { out << typed; });
  return out.str();
}

std::string Written(bool value) { return value ? "true" : "false"; }

std::string Written(std::int64_t value) { return fmt::format("{}", value); }

std::string Written(double value) { return fmt::format("{}", value); }

std::string Written(const std::string& value) { return Written(toml::value<std::string>(value)); }

std::string Written(Bytes value) {
  constexpr std::array<std::string_view, 4> kUnits = {"", "KiB", "MiB", "GiB"};
  std::uint64_t count = value.count();
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && count > 0 && count % 1024 == 0) count /= 1024, ++unit;
  return unit == 0 ? fmt::format("{}", count) : fmt::format("\"{}{}\"", count, kUnits[unit]);
}

std::string Written(const std::vector<std::int64_t>& values) { return WrittenList(values); }

std::string Written(const std::vector<std::string>& values) { return WrittenList(values); }

}  // namespace sluice::engine
