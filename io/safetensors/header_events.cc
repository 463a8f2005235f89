#include "io/safetensors/header_events.h"

#include <cctype>
#include <cstddef>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace sluice::io {
namespace {

using HeaderJson = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";
/// Extents of a shape: more than any tool has.
constexpr std::size_t kExtentsMax = 64;
constexpr std::size_t kShownBytes = 80;

/// Takes the parser's events. Each method answers whether to go on.
class HeaderEvents : public nlohmann::json_sax<HeaderJson> {
 public:
  explicit HeaderEvents(HeaderContent& content) : content_(content) {}

  const absl::Status& status() const { return status_; }

  bool null() override { return Misplaced("null"); }
  bool boolean(bool) override { return Misplaced("a boolean"); }
  bool number_integer(std::int64_t) override { return Misplaced("a negative number"); }
  bool number_float(double, const std::string&) override { return Misplaced("a fraction"); }
  bool binary(HeaderJson::binary_t&) override { return Misplaced("bytes"); }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ != Scope::kNumbers) return Misplaced("a number");
    if (numbers_.size() == kExtentsMax) {
      return Fail(fmt::format("{} has more than {} numbers", Where(), kExtentsMax));
    }
    numbers_.push_back(value);
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Scope::kMetadata) {
      const bool added = content_.metadata.emplace(field_, std::move(value)).second;
      return added || Fail(fmt::format("{} is there twice", Where()));
    }
    if (place_ != Scope::kTensor || field_ != "dtype") return Misplaced("a text");
    tensor_.dtype = std::move(value);
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Scope::kOutside) return Enter(Scope::kTop);
    if (place_ != Scope::kTop) return Misplaced("an object");
    if (name_ == kMetadataKey) return Enter(Scope::kMetadata);
    tensor_ = {.name = name_};
    return Enter(Scope::kTensor);
  }

  bool key(std::string& name) override {
    if (place_ == Scope::kTop) {
      name_ = std::move(name);
      const bool added = names_.insert(name_).second;
      return added || Fail(fmt::format("{} is there twice", ShownName(name_)));
    }
    field_ = std::move(name);
    return place_ == Scope::kMetadata || CheckField();
  }

  bool end_object() override {
    if (place_ == Scope::kTensor) content_.tensors.push_back(std::move(tensor_));
    return Enter(place_ == Scope::kTop ? Scope::kOutside : Scope::kTop);
  }

  bool start_array(std::size_t) override {
    if (place_ != Scope::kTensor || field_ == "dtype") return Misplaced("a list");
    numbers_.clear();
    return Enter(Scope::kNumbers);
  }

  bool end_array() override {
    (field_ == "shape" ? tensor_.shape : tensor_.offsets) = std::move(numbers_);
    return Enter(Scope::kTensor);
  }

  bool parse_error(std::size_t position,
                   const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail(fmt::format("its header is no JSON (at byte {})", position));
  }

 private:
  /// Part of the header that the next event belongs to.
  enum class Scope { kOutside, kTop, kMetadata, kTensor, kNumbers };

  bool Enter(Scope place) {
    place_ = place;
    return true;
  }

  /// A field that is known and new.
  bool CheckField() {
    const bool known = field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
    if (!known) {
      return Fail(
          fmt::format("tensor {} has an unknown field {}", ShownName(name_), ShownName(field_)));
    }
    const bool twice = field_ == "dtype"   ? tensor_.dtype.has_value()
                       : field_ == "shape" ? tensor_.shape.has_value()
                                           : tensor_.offsets.has_value();
    return !twice || Fail(fmt::format("{} is there twice", Where()));
  }

  std::string Where() const {
    if (place_ == Scope::kOutside) return "its header";
    if (place_ == Scope::kTop) return ShownName(name_);
    return fmt::format("{} of {}", ShownName(field_), ShownName(name_));
  }

  bool Misplaced(std::string_view what) {
    return Fail(fmt::format("{} must not be {}", Where(), what));
  }

  bool Fail(const std::string& what) {
    status_ = absl::InvalidArgumentError(what);
    return false;
  }

  HeaderContent& content_;
  absl::Status status_;
  Scope place_ = Scope::kOutside;
  std::set<std::string> names_;
  std::string name_;   ///< key of the header that was read last
  std::string field_;  ///< key of its object that was read last
  HeaderTensor tensor_;
  std::vector<std::uint64_t> numbers_;
};

}  // namespace

std::string ShownName(std::string_view name) {
  std::string shown = "'";
  for (const char c : name.substr(0, kShownBytes)) {
    shown.push_back(std::iscntrl(static_cast<unsigned char>(c)) != 0 ? '?' : c);
  }
  return shown + (name.size() > kShownBytes ? "...'" : "'");
}

absl::StatusOr<HeaderContent> ReadHeaderContent(std::string_view json) {
  HeaderContent content;
  HeaderEvents events(content);
  const bool whole = HeaderJson::sax_parse(json.begin(), json.end(), &events);
  if (whole) return content;
  return events.status().ok() ? absl::InvalidArgumentError("its header is no JSON")
                              : events.status();
}

}  // namespace sluice::io
