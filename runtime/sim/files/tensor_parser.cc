#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/sim/files/json_fields.h"
#include "runtime/sim/files/op_parser.h"
#include "runtime/sim/files/quoted.h"

namespace sluice::sim {
namespace {

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (int kind = 0; kind < kTensorKindCount; ++kind) {
    names.emplace_back(ToString(static_cast<TensorKind>(kind)));
  }
  return names;
}

absl::StatusOr<TensorKind> ToKind(const Json& value, std::uint64_t text_max) {
  SLUICE_ASSIGN_OR_RETURN(const std::string name, ToText(value, "\"kind\"", text_max));
  const std::vector<std::string> names = KindNames();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<TensorKind>(i);
  }
  const std::string nearest = base::DidYouMean(name, names);
  return absl::InvalidArgumentError(fmt::format(
      "\"kind\" is {}{}",
      Quoted(name),
      nearest.empty() ? "; the kinds are parameter, gradient, optimizer, activation, kv, other"
                      : nearest));
}

absl::StatusOr<TensorHome> ToHome(const Json& value) {
  if (value == "store") return TensorHome::kStore;
  if (value == "file") return TensorHome::kFile;
  return absl::InvalidArgumentError(
      "\"home\" is neither \"store\" nor \"file\"; write one of them");
}

absl::Status ReadSize(const Json& line, FileTensor* tensor) {
  SLUICE_ASSIGN_OR_RETURN(const Json* const bytes, Require(line, "bytes"));
  SLUICE_ASSIGN_OR_RETURN(tensor->bytes, ToWhole(*bytes, "\"bytes\"", kBytesMax));
  if (tensor->bytes == 0) {
    return absl::InvalidArgumentError("\"bytes\" is 0; remove the tensor or give it a size");
  }
  SLUICE_ASSIGN_OR_RETURN(const Json* const persistent, Require(line, "persistent"));
  if (!persistent->is_boolean()) {
    return absl::InvalidArgumentError("\"persistent\" is neither true nor false");
  }
  tensor->persistent = persistent->get<bool>();
  return absl::OkStatus();
}

absl::Status ReadExtras(const Json& line, std::uint64_t text_max, FileTensor* tensor) {
  if (const Json* const name = Find(line, "name")) {
    SLUICE_ASSIGN_OR_RETURN(tensor->name, ToText(*name, "\"name\"", text_max));
  }
  if (const Json* const kind = Find(line, "kind")) {
    SLUICE_ASSIGN_OR_RETURN(tensor->kind, ToKind(*kind, text_max));
  }
  if (const Json* const home = Find(line, "home")) {
    SLUICE_ASSIGN_OR_RETURN(tensor->home, ToHome(*home));
  }
  if (const Json* const segment = Find(line, "segment")) {
    SLUICE_ASSIGN_OR_RETURN(tensor->segment, ToWhole(*segment, "\"segment\"", UINT64_MAX));
  }
  if (Find(line, "offset") != nullptr && !tensor->segment.has_value()) {
    return absl::InvalidArgumentError("\"offset\" is a place in a segment; name the \"segment\"");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FileTensor> ParseTensor(const Json& line, const ReadLimits& limits) {
  FileTensor tensor;
  SLUICE_ASSIGN_OR_RETURN(tensor.id, ToWhole(line["tensor"], "\"tensor\"", UINT64_MAX));
  absl::Status read = ReadSize(line, &tensor);
  if (read.ok()) read = ReadExtras(line, limits.text_field.count(), &tensor);
  SLUICE_RETURN_IF_ERROR(base::Annotate(read, fmt::format("tensor {}", tensor.id)));
  return tensor;
}

}  // namespace sluice::sim
