#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/engine/setup/toml.h"
#include "sluice/units.h"

/// Conversions of a configuration's values, from TOML and back.

namespace sluice::engine {

/// Converts the node's value. False: the node has another type, and `*value` stays.
bool ConvertNode(const toml::node& node, bool* value);
bool ConvertNode(const toml::node& node, std::int64_t* value);
bool ConvertNode(const toml::node& node, double* value);
bool ConvertNode(const toml::node& node, std::string* value);
bool ConvertNode(const toml::node& node, Bytes* value);
bool ConvertNode(const toml::node& node, std::vector<std::int64_t>* value);
bool ConvertNode(const toml::node& node, std::vector<std::string>* value);

/// The node as the file has it.
std::string Written(const toml::node& node);
/// The value as TOML that ConvertNode reads back without loss.
std::string Written(bool value);
std::string Written(std::int64_t value);
std::string Written(double value);
std::string Written(const std::string& value);
std::string Written(Bytes value);
std::string Written(const std::vector<std::int64_t>& values);
std::string Written(const std::vector<std::string>& values);

}  // namespace sluice::engine
