#include "io/safetensors/weight_index.h"

#include <cstddef>
#include <utility>

#include "base/strings.h"
#include "fmt/format.h"
#include "io/safetensors/header_events.h"
#include "nlohmann/json.hpp"

namespace sluice::io {
namespace {

using IndexJson = nlohmann::json;

constexpr std::string_view kMapKey = "weight_map";

bool IsInDirectory(std::string_view file) {
  return !file.empty() && file != "." && file != ".." && file.find('/') == std::string_view::npos &&
         file.find('\0') == std::string_view::npos;
}

/// Takes the parser's events. Each method answers whether to go on.
class IndexEvents : public nlohmann::json_sax<IndexJson> {
 public:
  const absl::Status& status() const { return status_; }
  bool has_map() const { return has_map_; }
  std::map<std::string, std::string> TakeFiles() { return std::move(files_); }

  bool null() override { return Value("null"); }
  bool boolean(bool) override { return Value("a boolean"); }
  bool number_integer(std::int64_t) override { return Value("a number"); }
  bool number_unsigned(std::uint64_t) override { return Value("a number"); }
  bool number_float(double, const std::string&) override { return Value("a number"); }
  bool binary(IndexJson::binary_t&) override { return Value("bytes"); }
  bool start_array(std::size_t) override { return Value("a list") && Deeper(); }
  bool end_array() override { return Shallower(); }

  bool string(std::string& value) override {
    if (!InMap()) return Value("a text");
    if (!IsInDirectory(value)) {
      return Fail(
          fmt::format("tensor {} is in {}, which is no file of the index's directory; name "
                      "the file alone, and put it there",
                      ShownName(name_),
                      ShownName(value)));
    }
    const bool added = files_.emplace(name_, std::move(value)).second;
    return added || Fail(fmt::format("tensor {} is there twice", ShownName(name_)));
  }

  bool start_object(std::size_t) override {
    if (InMap()) return Value("an object");
    if (depth_ == 1 && key_ == kMapKey) {
      if (has_map_) return Fail("\"weight_map\" is there twice");
      has_map_ = in_map_ = true;
    } else if (depth_ == 1) {
      in_map_ = false;
    }
    return Deeper();
  }
  bool end_object() override { return Shallower(); }

  bool key(std::string& name) override {
    if (depth_ == 1)
      key_ = std::move(name);
    else
      name_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position,
                   const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail(fmt::format("it is no JSON (at byte {})", position));
  }

 private:
  bool InMap() const { return in_map_ && depth_ == 2; }

  bool Deeper() {
    ++depth_;
    return true;
  }
  bool Shallower() {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }

  /// Refuses a value that is no text in place of a file name. Values beside the map do not matter.
  bool Value(std::string_view what) {
    if (depth_ == 0) return Fail(fmt::format("it must not be {}", what));
    if (InMap()) return Fail(fmt::format("the file of tensor {} is {}", ShownName(name_), what));
    if (depth_ == 1 && key_ == kMapKey) return Fail(fmt::format("\"weight_map\" is {}", what));
    return true;
  }

  bool Fail(const std::string& what) {
    status_ = absl::InvalidArgumentError(base::ToAbsl(what));
    return false;
  }

  absl::Status status_;
  std::map<std::string, std::string> files_;
  int depth_ = 0;
  bool has_map_ = false;
  bool in_map_ = false;
  std::string key_;   ///< key of the index that was read last
  std::string name_;  ///< key of an object in it that was read last
};

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ParseWeightIndex(std::string_view json) {
  IndexEvents events;
  const bool whole = IndexJson::sax_parse(json.begin(), json.end(), &events);
  if (!events.status().ok()) return events.status();
  if (!whole) return absl::InvalidArgumentError("it is no JSON");
  if (!events.has_map()) return absl::InvalidArgumentError("it has no \"weight_map\"");
  return events.TakeFiles();
}

}  // namespace sluice::io
