#include "runtime/sim/schedule/schedule_builder.h"

#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/sim/files/json_fields.h"

namespace sluice::sim {
namespace {

constexpr std::uint64_t kVersion = 1;
/// Sums of bytes stay below, so that adding, and rounding up to pages, cannot overflow.
constexpr std::uint64_t kSumMax = std::uint64_t{1} << 61;
/// Rounding to pages can add this much to each of two ends.
constexpr std::uint64_t kPageBytesMax = std::uint64_t{1} << 26;
constexpr std::uint64_t kIndexMax = std::uint64_t{1} << 31;
/// Bytes that a hash table keeps per entry, roughly.
constexpr std::uint64_t kEntryBytes = 40;

absl::Status CheckCount(const char* what,
                        std::optional<std::uint64_t> promised,
                        std::size_t found) {
  if (!promised.has_value() || *promised == found) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the header promises {} {}, but {} follow; the file is cut short, or the header "
                  "is wrong",
                  *promised,
                  what,
                  found));
}

}  // namespace

ScheduleBuilder::ScheduleBuilder(const ReadLimits& limits,
                                 std::uint64_t header_line,
                                 std::uint64_t* model_bytes_left)
    : limits_(limits), header_line_(header_line), model_bytes_left_(model_bytes_left) {}

absl::Status ScheduleBuilder::Charge(std::uint64_t bytes) {
  if (bytes > *model_bytes_left_) {
    return absl::ResourceExhaustedError(
        fmt::format("the schedules take more than {} of memory; leave out what is not needed",
                    ToString(limits_.model)));
  }
  *model_bytes_left_ -= bytes;
  return absl::OkStatus();
}

absl::Status ScheduleBuilder::Begin(const Json& header) {
  if (const Json* const version = Find(header, "version"); version && *version != kVersion) {
    return absl::InvalidArgumentError(
        fmt::format("\"version\" is not {}, the only one known; write that version", kVersion));
  }
  const std::uint64_t text_max = limits_.text_field.count();
  SLUICE_ASSIGN_OR_RETURN(schedule_.name, ToText(header["schedule"], "\"schedule\"", text_max));
  if (const Json* const key = Find(header, "key")) {
    SLUICE_ASSIGN_OR_RETURN(schedule_.key, ToText(*key, "\"key\"", text_max));
  }
  if (const Json* const source = Find(header, "source")) {
    SLUICE_ASSIGN_OR_RETURN(schedule_.source, ToText(*source, "\"source\"", text_max));
  }
  if (const Json* const ops = Find(header, "ops")) {
    SLUICE_ASSIGN_OR_RETURN(ops_promised_, ToWhole(*ops, "\"ops\"", kIndexMax));
  }
  if (const Json* const tensors = Find(header, "tensors")) {
    SLUICE_ASSIGN_OR_RETURN(tensors_promised_, ToWhole(*tensors, "\"tensors\"", kIndexMax));
  }
  if (const Json* const page = Find(header, "page_bytes")) {
    SLUICE_ASSIGN_OR_RETURN(schedule_.page_bytes, ToWhole(*page, "\"page_bytes\"", kPageBytesMax));
  }
  return Charge(sizeof(FileSchedule) + schedule_.name.size() + schedule_.key.size() +
                schedule_.source.size());
}

/// Places a tensor. Without a place of its own it lies behind the one before it.
absl::Status ScheduleBuilder::PlaceTensor(const Json& line, FileTensor* tensor) {
  tensor_bytes_ += tensor->bytes + 2 * kPageBytesMax;
  if (tensor_bytes_ > kSumMax) {
    return absl::InvalidArgumentError(
        "all tensors together have more than 2^61 bytes; correct their sizes");
  }
  if (!tensor->segment.has_value()) return absl::OkStatus();
  std::uint64_t& end = segment_end_[*tensor->segment];
  tensor->segment_offset = end;
  if (const Json* const offset = Find(line, "offset")) {
    SLUICE_ASSIGN_OR_RETURN(tensor->segment_offset, ToWhole(*offset, "\"offset\"", kBytesMax));
  }
  end = tensor->segment_offset + tensor->bytes;
  if (end <= kSumMax) return absl::OkStatus();
  return absl::InvalidArgumentError("the segment has more than 2^61 bytes; correct the offsets");
}

absl::Status ScheduleBuilder::AddTensor(const Json& line) {
  SLUICE_ASSIGN_OR_RETURN(FileTensor tensor, ParseTensor(line, limits_));
  const auto index = static_cast<std::uint32_t>(schedule_.tensors.size());
  if (!tensor_of_id_.try_emplace(tensor.id, index).second) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} is described twice; remove one", tensor.id));
  }
  SLUICE_RETURN_IF_ERROR(
      base::Annotate(PlaceTensor(line, &tensor), fmt::format("tensor {}", tensor.id)));
  SLUICE_RETURN_IF_ERROR(Charge(sizeof(FileTensor) + tensor.name.size() + 2 * kEntryBytes));
  schedule_.tensors.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status ScheduleBuilder::CountLane(const FileOp& op) {
  lanes_.insert(op.lane);
  if (lanes_.size() <= limits_.lanes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("op {}: there are more than {} lanes; put ops that run one after another in one",
                  op.id,
                  limits_.lanes));
}

absl::Status ScheduleBuilder::CountTraffic(const FileOp& op) {
  for (const std::vector<FileAccess>* accesses : {&op.reads, &op.writes}) {
    for (const FileAccess& access : *accesses) {
      traffic_bytes_ += access.range.bytes + 2 * kPageBytesMax;
      if (traffic_bytes_ <= kSumMax) continue;
      return absl::InvalidArgumentError(fmt::format(
          "op {}: the ops up to this one touch more than 2^61 bytes; correct the sizes", op.id));
    }
  }
  return absl::OkStatus();
}

absl::Status ScheduleBuilder::CheckWrites(const FileOp& op) const {
  for (const FileAccess& access : op.writes) {
    const FileTensor& tensor = schedule_.tensors[access.tensor];
    if (tensor.home == TensorHome::kStore) continue;
    return absl::InvalidArgumentError(
        fmt::format("op {} writes tensor {}, whose home is a file that is only read; make its home "
                    "\"store\", or do not write it",
                    op.id,
                    tensor.id));
  }
  return absl::OkStatus();
}

absl::Status ScheduleBuilder::AddOp(const Json& line, std::uint64_t number) {
  SLUICE_ASSIGN_OR_RETURN(ParsedOp parsed,
                          ParseOp(line,
                                  {.tensors = schedule_.tensors,
                                   .tensor_of_id = tensor_of_id_,
                                   .ops = schedule_.ops,
                                   .limits = limits_}));
  FileOp& op = parsed.op;
  op.line = {number};
  SLUICE_RETURN_IF_ERROR(CheckWrites(op));
  SLUICE_RETURN_IF_ERROR(CountTraffic(op));
  SLUICE_RETURN_IF_ERROR(CountLane(op));
  const auto index = static_cast<std::uint32_t>(schedule_.ops.size());
  for (const std::uint64_t id : parsed.forward) forward_.push_back({index, id, number});
  SLUICE_RETURN_IF_ERROR(
      Charge(sizeof(FileOp) + op.name.size() + op.lane.size() +
             (op.reads.size() + op.writes.size()) * sizeof(FileAccess) +
             (op.after.has_value() ? op.after->size() : 0) * sizeof(std::uint32_t) +
             parsed.forward.size() * sizeof(ForwardWait) +
             op.recompute_seconds.size() * sizeof(std::optional<double>) +
             op.exceptions.size() * sizeof(TierException)));
  schedule_.ops.push_back(std::move(op));
  return absl::OkStatus();
}

absl::Status ScheduleBuilder::CheckCounts() const {
  SLUICE_RETURN_IF_ERROR(CheckCount("tensors", tensors_promised_, schedule_.tensors.size()));
  SLUICE_RETURN_IF_ERROR(CheckCount("ops", ops_promised_, schedule_.ops.size()));
  if (!schedule_.ops.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("no op follows the header; record or add one");
}

ScheduleBuilder::Failure ScheduleBuilder::Check(std::uint64_t last) const {
  if (!forward_.empty()) {
    return {forward_.front().line,
            absl::InvalidArgumentError(ExplainForwardWait(schedule_.ops, forward_))};
  }
  return {last, CheckCounts()};
}

}  // namespace sluice::sim
