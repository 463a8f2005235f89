#include "runtime/sim/files/schedule_lines.h"

#include <optional>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace sluice::sim {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string Line(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

/// "dram" for the first of its kind.
std::string TierName(TierId tier) {
  return tier.index == 0 ? std::string(ToString(tier.kind)) : ToString(tier);
}

/// An id, or [id, first byte, bytes] for a part.
OrderedJson Element(const FileAccess& access, const OpNames& names) {
  const OpNames::TensorFacts& tensor = names.tensors[access.tensor];
  if (access.range == ByteRange{0, tensor.bytes}) return tensor.id;
  return OrderedJson::array({tensor.id, access.range.offset, access.range.bytes});
}

OrderedJson Elements(const std::vector<FileAccess>& accesses, const OpNames& names) {
  OrderedJson elements = OrderedJson::array();
  for (const FileAccess& access : accesses) elements.push_back(Element(access, names));
  return elements;
}

OrderedJson After(const std::vector<std::uint32_t>& after, const OpNames& names) {
  OrderedJson ids = OrderedJson::array();
  for (const std::uint32_t op : after) {
    ids.push_back(names.ops.empty() ? std::uint64_t{op} : names.ops[op]);
  }
  return ids;
}

/// A number for each of "writes", or null.
OrderedJson Recompute(const std::vector<std::optional<double>>& seconds) {
  OrderedJson list = OrderedJson::array();
  for (const std::optional<double>& one : seconds) {
    list.push_back(one.has_value() ? OrderedJson(*one) : OrderedJson(nullptr));
  }
  return list;
}

void AddTiers(const FileOp& op, const OpNames& names, OrderedJson* line) {
  if (op.tier != kHbm0) (*line)["tier"] = TierName(op.tier);
  if (op.exceptions.empty()) return;
  OrderedJson tiers = OrderedJson::object();
  for (const TierException& exception : op.exceptions) {
    tiers[std::to_string(names.tensors[exception.tensor].id)] = TierName(exception.tier);
  }
  (*line)["tiers"] = std::move(tiers);
}

}  // namespace

std::string HeaderLine(const ScheduleHeader& header) {
  OrderedJson line = {{"schedule", header.name},
                      {"version", 1},
                      {"key", header.key},
                      {"ops", header.ops},
                      {"tensors", header.tensors}};
  if (header.page_bytes > 0) line["page_bytes"] = header.page_bytes;
  if (!header.source.empty()) line["source"] = header.source;
  return Line(line);
}

std::string TensorLine(const FileTensor& tensor) {
  OrderedJson line = {
      {"tensor", tensor.id}, {"bytes", tensor.bytes}, {"persistent", tensor.persistent}};
  if (!tensor.name.empty()) line["name"] = tensor.name;
  if (tensor.kind != TensorKind::kOther) line["kind"] = ToString(tensor.kind);
  if (tensor.segment.has_value()) {
    line["segment"] = *tensor.segment;
    line["offset"] = tensor.segment_offset;
  }
  if (tensor.home == TensorHome::kFile) line["home"] = "file";
  return Line(line);
}

std::string OpLine(const FileOp& op, const OpNames& names) {
  OrderedJson line = {{"op", op.id}, {"name", op.name}, {"seconds", op.seconds}};
  if (op.lane != "gpu") line["lane"] = op.lane;
  AddTiers(op, names, &line);
  line["reads"] = Elements(op.reads, names);
  line["writes"] = Elements(op.writes, names);
  if (op.after.has_value()) line["after"] = After(*op.after, names);
  if (!op.recompute_seconds.empty()) line["recompute_seconds"] = Recompute(op.recompute_seconds);
  return Line(line);
}

}  // namespace sluice::sim
