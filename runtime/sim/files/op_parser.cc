#include "runtime/sim/files/op_parser.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/sim/files/json_fields.h"
#include "runtime/sim/files/quoted.h"
#include "runtime/sim/schedule/op_order.h"

namespace sluice::sim {
namespace {

absl::StatusOr<std::uint32_t> FindTensor(std::uint64_t id, const OpContext& context) {
  const auto found = context.tensor_of_id.find(id);
  if (found != context.tensor_of_id.end()) return found->second;
  return absl::InvalidArgumentError(fmt::format(
      "no line before this one describes tensor {}; add one, or correct the number", id));
}

absl::StatusOr<std::uint32_t> ToTensor(const Json& value, const OpContext& context) {
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t id, ToWhole(value, "a tensor", UINT64_MAX));
  return FindTensor(id, context);
}

absl::Status OutOfTensor(const FileTensor& tensor, ByteRange range) {
  return absl::InvalidArgumentError(
      range.bytes == 0
          ? fmt::format("the part of tensor {} has 0 bytes; remove it", tensor.id)
          : fmt::format("bytes {} to {} of tensor {} are asked for, but it has only {}",
                        range.offset,
                        range.offset + range.bytes - 1,
                        tensor.id,
                        tensor.bytes));
}

/// An id, or [id, first byte, bytes].
absl::StatusOr<FileAccess> ToAccess(const Json& value, const OpContext& context) {
  if (!value.is_array()) {
    SLUICE_ASSIGN_OR_RETURN(const std::uint32_t tensor, ToTensor(value, context));
    return FileAccess{tensor, {0, context.tensors[tensor].bytes}};
  }
  if (value.size() != 3) {
    return absl::InvalidArgumentError(fmt::format(
        "a part of a tensor has {} numbers; write [tensor, first byte, bytes]", value.size()));
  }
  FileAccess access;
  SLUICE_ASSIGN_OR_RETURN(access.tensor, ToTensor(value[0], context));
  SLUICE_ASSIGN_OR_RETURN(access.range.offset, ToWhole(value[1], "a first byte", kBytesMax));
  SLUICE_ASSIGN_OR_RETURN(access.range.bytes, ToWhole(value[2], "a number of bytes", kBytesMax));
  const FileTensor& tensor = context.tensors[access.tensor];
  if (access.range.bytes == 0 || access.range.offset + access.range.bytes > tensor.bytes) {
    return OutOfTensor(tensor, access.range);
  }
  return access;
}

absl::StatusOr<std::vector<FileAccess>> ToAccesses(const Json& line,
                                                   const char* field,
                                                   const OpContext& context) {
  SLUICE_ASSIGN_OR_RETURN(const Json* const list, Require(line, field));
  SLUICE_RETURN_IF_ERROR(CheckArray(*list, fmt::format("\"{}\"", field)));
  std::vector<FileAccess> accesses;
  accesses.reserve(list->size());
  for (const Json& element : *list) {
    absl::StatusOr<FileAccess> access = ToAccess(element, context);
    if (!access.ok()) return base::Annotate(access.status(), fmt::format("\"{}\"", field));
    accesses.push_back(*access);
  }
  return accesses;
}

/// Work is done in a tier that leases can be had in.
absl::StatusOr<TierId> ToTier(const Json& value, std::string_view what) {
  SLUICE_ASSIGN_OR_RETURN(const std::string name, ToText(value, what, 16));
  SLUICE_ASSIGN_OR_RETURN(const TierId tier, ParseTierId(name));
  if (tier.kind != TierKind::kNvme) return tier;
  return absl::InvalidArgumentError(
      fmt::format("{} is nvme, where no op can work; name hbm or dram", what));
}

absl::Status ReadTiers(const Json& line, const OpContext& context, FileOp* op) {
  if (const Json* const tier = Find(line, "tier")) {
    SLUICE_ASSIGN_OR_RETURN(op->tier, ToTier(*tier, "\"tier\""));
  }
  const Json* const exceptions = Find(line, "tiers");
  if (exceptions == nullptr) return absl::OkStatus();
  if (!exceptions->is_object()) {
    return absl::InvalidArgumentError("\"tiers\" is no object, as {\"7\": \"dram\"} is");
  }
  for (const auto& [text, name] : exceptions->items()) {
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc() || end != text.data() + text.size()) {
      return absl::InvalidArgumentError(
          fmt::format("\"tiers\" names {}, which is no tensor's number", Quoted(text)));
    }
    SLUICE_ASSIGN_OR_RETURN(const std::uint32_t tensor, FindTensor(id, context));
    SLUICE_ASSIGN_OR_RETURN(const TierId tier, ToTier(name, "a tier in \"tiers\""));
    op->exceptions.push_back({tensor, tier});
  }
  const auto by_tensor = [](const TierException& a, const TierException& b) {
    return a.tensor < b.tensor;
  };
  std::sort(op->exceptions.begin(), op->exceptions.end(), by_tensor);
  return absl::OkStatus();
}

absl::Status ReadAfter(const Json& line, const OpContext& context, ParsedOp* parsed) {
  const Json* const list = Find(line, "after");
  if (list == nullptr) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(CheckArray(*list, "\"after\""));
  std::vector<std::uint32_t>& after = parsed->op.after.emplace();
  for (const Json& element : *list) {
    SLUICE_ASSIGN_OR_RETURN(const std::uint64_t id,
                            ToWhole(element, "an op in \"after\"", UINT64_MAX));
    if (id == parsed->op.id) {
      return absl::InvalidArgumentError("\"after\" names the op itself; remove it");
    }
    const std::size_t index = FindOp(context.ops, id);
    if (index < context.ops.size()) {
      after.push_back(static_cast<std::uint32_t>(index));
    } else {
      parsed->forward.push_back(id);
    }
  }
  return absl::OkStatus();
}

/// A number for all of "writes", or a list with one for each: null for what cannot be made again.
absl::Status ReadRecompute(const Json& line, FileOp* op) {
  const Json* const value = Find(line, "recompute_seconds");
  if (value == nullptr) return absl::OkStatus();
  constexpr std::string_view kWhat = "\"recompute_seconds\"";
  if (!value->is_array()) {
    SLUICE_ASSIGN_OR_RETURN(const double seconds, ToSeconds(*value, kWhat));
    op->recompute_seconds.assign(op->writes.size(), seconds);
    return absl::OkStatus();
  }
  if (value->size() != op->writes.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} numbers and \"writes\" {}; give one for each, or one for all",
                    kWhat,
                    value->size(),
                    op->writes.size()));
  }
  for (const Json& element : *value) {
    std::optional<double>& seconds = op->recompute_seconds.emplace_back();
    if (element.is_null()) continue;
    SLUICE_ASSIGN_OR_RETURN(seconds, ToSeconds(element, kWhat));
  }
  return absl::OkStatus();
}

absl::Status ReadFields(const Json& line, const OpContext& context, ParsedOp* parsed) {
  FileOp& op = parsed->op;
  const std::uint64_t text_max = context.limits.text_field.count();
  SLUICE_ASSIGN_OR_RETURN(const Json* const seconds, Require(line, "seconds"));
  SLUICE_ASSIGN_OR_RETURN(op.seconds, ToSeconds(*seconds, "\"seconds\""));
  if (const Json* const name = Find(line, "name")) {
    SLUICE_ASSIGN_OR_RETURN(op.name, ToText(*name, "\"name\"", text_max));
  }
  if (const Json* const lane = Find(line, "lane")) {
    SLUICE_ASSIGN_OR_RETURN(op.lane, ToText(*lane, "\"lane\"", text_max));
  }
  SLUICE_RETURN_IF_ERROR(ReadTiers(line, context, &op));
  SLUICE_ASSIGN_OR_RETURN(op.reads, ToAccesses(line, "reads", context));
  SLUICE_ASSIGN_OR_RETURN(op.writes, ToAccesses(line, "writes", context));
  SLUICE_RETURN_IF_ERROR(ReadAfter(line, context, parsed));
  return ReadRecompute(line, &op);
}

/// Rising ids make each unique and findable.
absl::Status CheckId(std::uint64_t id, const OpContext& context) {
  if (context.ops.empty() || id > context.ops.back().id) return absl::OkStatus();
  if (FindOp(context.ops, id) < context.ops.size()) {
    return absl::InvalidArgumentError(
        fmt::format("op {} stands twice; number ops in the order in which they run", id));
  }
  return absl::InvalidArgumentError(
      fmt::format("op {} stands behind op {}; number ops in the order in which they run",
                  id,
                  context.ops.back().id));
}

}  // namespace

absl::StatusOr<ParsedOp> ParseOp(const Json& line, const OpContext& context) {
  ParsedOp parsed;
  SLUICE_ASSIGN_OR_RETURN(parsed.op.id, ToWhole(line["op"], "\"op\"", UINT64_MAX));
  SLUICE_RETURN_IF_ERROR(CheckId(parsed.op.id, context));
  const absl::Status read = ReadFields(line, context, &parsed);
  if (read.ok()) return parsed;
  return base::Annotate(read,
                        parsed.op.name.empty()
                            ? fmt::format("op {}", parsed.op.id)
                            : fmt::format("op {} ({})", parsed.op.id, Printable(parsed.op.name)));
}

}  // namespace sluice::sim
