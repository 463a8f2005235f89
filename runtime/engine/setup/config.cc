#include "sluice/config.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/engine/setup/config_values.h"
#include "runtime/engine/setup/toml.h"

namespace sluice {
namespace {

using engine::ConvertNode;
using engine::Written;

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> SplitKey(std::string_view key) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.', begin)) {
    parts.emplace_back(key.substr(begin, dot - begin));
    begin = dot + 1;
  }
  parts.emplace_back(key.substr(begin));
  return parts;
}

const toml::node* FindNode(const toml::table& root, std::string_view key) {
  const toml::node* node = &root;
  for (const std::string& part : SplitKey(key)) {
    const toml::table* const table = node->as_table();
    if (table == nullptr) return nullptr;
    node = table->get(part);
    if (node == nullptr) return nullptr;
  }
  return node;
}

/// "file.toml:3:7" or "--set".
std::string Location(const std::string& source_name, const toml::node& node, bool overridden) {
  if (overridden) return "--set";
  const toml::source_position begin = node.source().begin;
  return fmt::format("{}:{}:{}", source_name, begin.line, begin.column);
}

/// Whether a number goes on with a letter, as in 64MiB.
bool IsSizeWithoutQuotes(std::string_view error) {
  constexpr std::string_view kSaw = "digit, saw '";
  const std::size_t at = error.find(kSaw);
  return at != std::string_view::npos && at + kSaw.size() < error.size() &&
         std::isalpha(static_cast<unsigned char>(error[at + kSaw.size()])) != 0;
}

absl::Status ParseError(const std::string& source_name, const toml::parse_error& error) {
  const toml::source_position begin = error.source().begin;
  const std::string_view text = error.description();
  const char* const hint = IsSizeWithoutQuotes(text) ? "; a size needs quotes: \"64MiB\"" : "";
  return absl::InvalidArgumentError(
      fmt::format("{}:{}:{}: {}{}", source_name, begin.line, begin.column, text, hint));
}

/// The value of an assignment: TOML where it parses as TOML, else the word itself.
toml::table ParseOverride(std::string_view text) {
  toml::parse_result parsed = toml::parse(fmt::format("value = {}", text));
  const bool one_value = parsed.succeeded() && parsed.table().size() == 1;
  if (one_value && !parsed.table().begin()->second.is_table()) return std::move(parsed).table();
  toml::table word;
  word.insert("value", std::string(text));
  return word;
}

/// A value that no override may replace by a section, or the other way round.
absl::Status ShapeError(std::string_view key, std::string_view has, std::string_view wants) {
  return absl::InvalidArgumentError(
      fmt::format("--set {}: \"{}\" is {}, not {}", key, key, has, wants));
}

/// The table that holds the last part of `key`, made where absent.
absl::StatusOr<toml::table*> TableOf(toml::table& root,
                                     const std::vector<std::string>& parts,
                                     std::string_view key) {
  toml::table* table = &root;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto [entry, inserted] = table->emplace<toml::table>(parts[i]);
    if (!entry->second.is_table()) return ShapeError(key, "below a value", "in a section");
    table = entry->second.as_table();
  }
  return table;
}

/// Calls `visit(key, node)` for every value, and for every section without values.
template <typename Visit>
void ForEachLeaf(const toml::table& table, const std::string& prefix, const Visit& visit) {
  for (const auto& [name, node] : table) {
    const std::string key =
        prefix.empty() ? std::string(name.str()) : fmt::format("{}.{}", prefix, name.str());
    const toml::table* const section = node.as_table();
    if (section == nullptr || section->empty()) {
      visit(key, node);
    } else {
      ForEachLeaf(*section, key, visit);
    }
  }
}

bool IsKnown(const std::vector<std::string>& known,
             const std::string& key,
             const toml::node& node) {
  if (!node.is_table()) return Contains(known, key);
  // An empty section is fine where it could hold known keys.
  return std::any_of(known.begin(), known.end(), [&](const std::string& name) {
    return name.starts_with(key + ".");
  });
}

}  // namespace

struct Config::State {
  std::string source_name;
  toml::table root;
  /// Keys that somebody read, present or not.
  std::vector<std::string> known;
  /// Keys that overrides set.
  std::vector<std::string> overridden;
  /// Lines of Config::Values.
  std::string values;

  std::string PlaceOf(const std::string& key, const toml::node& node) const {
    return Location(source_name, node, Contains(overridden, key));
  }

  template <typename T>
  absl::Status Read(std::string_view name, std::string_view expected, T* value) {
    const std::string key(name);
    const bool first = !Contains(known, key);
    if (first) known.push_back(key);
    const toml::node* const node = FindNode(root, key);
    if (node == nullptr || ConvertNode(*node, value)) {
      if (first) values += fmt::format("{} = {}\n", key, Written(*value));
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(fmt::format(
        "{}: \"{}\" is {}; it must be {}", PlaceOf(key, *node), key, Written(*node), expected));
  }
};

Config::Config(std::unique_ptr<State> state) : state_(std::move(state)) {}
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

absl::StatusOr<Config> Config::Load(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
      !std::filesystem::is_fifo(status)) {
    return absl::InvalidArgumentError(path + ": is no file, but a directory or device");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return base::StatusFromErrno(errno, "open " + path);
  std::string text(kBytesMax.count() + 1, '\0');  // one more than Parse takes
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return absl::InvalidArgumentError(path + ": cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  return Parse(text, path);
}

absl::StatusOr<Config> Config::Parse(std::string_view toml, const std::string& source_name) {
  if (toml.size() > kBytesMax.count()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: is too large; a configuration has at most {}", source_name, ToString(kBytesMax)));
  }
  toml::parse_result parsed = toml::parse(toml, source_name);
  if (!parsed.succeeded()) return ParseError(source_name, parsed.error());
  auto state = std::make_unique<State>();
  state->source_name = source_name;
  state->root = std::move(parsed).table();
  return Config(std::move(state));
}

absl::Status Config::Set(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return absl::InvalidArgumentError(
        fmt::format("--set {}: write KEY=VALUE, for example tiers.dram.bytes=256MiB", assignment));
  }
  const std::string key(assignment.substr(0, equals));
  const std::vector<std::string> parts = SplitKey(key);
  if (Contains(parts, "")) {
    return absl::InvalidArgumentError(fmt::format("--set {}: a part of the key is empty", key));
  }
  SLUICE_ASSIGN_OR_RETURN(toml::table* const table, TableOf(state_->root, parts, key));
  const toml::node* const present = table->get(parts.back());
  if (present != nullptr && present->is_table()) return ShapeError(key, "a section", "a value");
  toml::table value = ParseOverride(assignment.substr(equals + 1));
  table->insert_or_assign(parts.back(), std::move(*value.get("value")));
  state_->overridden.push_back(key);
  return absl::OkStatus();
}

bool Config::Has(std::string_view key) const {
  const toml::node* const node = FindNode(state_->root, key);
  return node != nullptr && !node->is_table();
}

std::string Config::Values() const { return state_->values; }

absl::Status Config::Finish() const {
  std::string first_key;
  const toml::node* first = nullptr;
  ForEachLeaf(state_->root, "", [&](const std::string& key, const toml::node& node) {
    if (IsKnown(state_->known, key, node)) return;
    const bool earlier = first == nullptr || node.source().begin < first->source().begin;
    if (earlier) first_key = key, first = &node;
  });
  if (first == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}: unknown key \"{}\"{}",
                                                state_->PlaceOf(first_key, *first),
                                                first_key,
                                                base::DidYouMean(first_key, state_->known)));
}

absl::Status Config::Read(std::string_view key, bool* value) {
  return state_->Read(key, "true or false", value);
}
absl::Status Config::Read(std::string_view key, std::int64_t* value) {
  return state_->Read(key, "a whole number, at most 9223372036854775807", value);
}
absl::Status Config::Read(std::string_view key, double* value) {
  return state_->Read(key, "a number", value);
}
absl::Status Config::Read(std::string_view key, std::string* value) {
  return state_->Read(key, "a string", value);
}
absl::Status Config::Read(std::string_view key, Bytes* value) {
  return state_->Read(key, "a size, for example \"256MiB\" or 4096", value);
}
absl::Status Config::Read(std::string_view key, std::vector<std::int64_t>* value) {
  return state_->Read(key, "a list of whole numbers, for example [0, 1]", value);
}
absl::Status Config::Read(std::string_view key, std::vector<std::string>* value) {
  return state_->Read(key, "a list of strings, for example [\"a\", \"b\"]", value);
}

}  // namespace sluice
