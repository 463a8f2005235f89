#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace sluice::tools {

/// One part of the report, for people and for programs.
class Section {
 public:
  explicit Section(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  /// `text` is how people see `value`. A field that does not apply is not added.
  void Add(const std::string& key, nlohmann::ordered_json value, std::string text);
  /// Adds a value that reads the same in both forms.
  void Add(const std::string& key, const std::string& value) { Add(key, value, value); }
  /// Adds a shortcoming, and its fix.
  void Warn(std::string warning) { warnings_.push_back(std::move(warning)); }

  /// One line: {"section": name, field: value, ..., "warnings": [...]}.
  std::string ToJson() const;
  /// The name, then an indented line per field and warning.
  std::string ToText() const;

 private:
  struct Field {
    std::string key;
    nlohmann::ordered_json value;
    std::string text;
  };

  std::string name_;
  std::vector<Field> fields_;
  std::vector<std::string> warnings_;
};

}  // namespace sluice::tools
