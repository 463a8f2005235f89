#include "runtime/sim/files/json_line.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/sim/files/quoted.h"

namespace sluice::sim {
namespace {

/// Builds a value from the parser's events and stops at the first excess.
class BoundedBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit BoundedBuilder(JsonLimits limits) : limits_(limits) {}

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return Add(value) != nullptr;
  }
  bool string(string_t& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override;
  bool parse_error(std::size_t position,
                   const std::string& last_token,
                   const nlohmann::detail::exception& error) override;

  absl::Status status() const { return status_; }
  Json TakeResult() { return std::move(result_); }

 private:
  Json* Add(Json value);
  bool Open(Json container);
  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  Json result_;
  std::vector<Json*> open_;
  /// The place of the value of the key that was read last.
  Json* slot_ = nullptr;
  std::uint64_t values_ = 0;
  absl::Status status_;
};

Json* BoundedBuilder::Add(Json value) {
  if (++values_ > limits_.values) {
    status_ = absl::ResourceExhaustedError(
        fmt::format("the line holds more than {} values", limits_.values));
    return nullptr;
  }
  if (open_.empty()) {
    result_ = std::move(value);
    return &result_;
  }
  if (open_.back()->is_object()) {
    *slot_ = std::move(value);
    return slot_;
  }
  open_.back()->push_back(std::move(value));
  return &open_.back()->back();
}

bool BoundedBuilder::Open(Json container) {
  if (open_.size() >= static_cast<std::size_t>(limits_.depth)) {
    status_ = absl::ResourceExhaustedError(
        fmt::format("lists and objects are nested more than {} deep", limits_.depth));
    return false;
  }
  Json* const added = Add(std::move(container));
  if (added != nullptr) open_.push_back(added);
  return added != nullptr;
}

bool BoundedBuilder::key(string_t& name) {
  const auto [place, added] = open_.back()->get_ref<Json::object_t&>().try_emplace(name);
  if (!added) {
    status_ = absl::InvalidArgumentError(
        fmt::format("the field {} stands twice in one object; remove one", Quoted(name)));
  }
  slot_ = &place->second;
  return added;
}

/// The reason is what the parser says last, behind its own error number and position.
bool BoundedBuilder::parse_error(std::size_t position,
                                 const std::string& last_token,
                                 const nlohmann::detail::exception& error) {
  const std::string text = error.what();
  const bool overflow = text.find("out_of_range") != std::string::npos;
  status_ = absl::InvalidArgumentError(
      overflow ? fmt::format("the number {} is too large", Quoted(last_token))
               : fmt::format("no JSON at byte {} of the line, after {}; a line holds one object",
                             position,
                             Quoted(last_token)));
  return false;
}

}  // namespace

absl::StatusOr<Json> ParseJsonLine(std::string_view line, JsonLimits limits) {
  BoundedBuilder builder(limits);
  Json::sax_parse(line, &builder);
  if (!builder.status().ok()) return builder.status();
  Json result = builder.TakeResult();
  if (!result.is_object()) {
    return absl::InvalidArgumentError("the line is no JSON object, as {\"op\": 0, ...} is");
  }
  return result;
}

}  // namespace sluice::sim
