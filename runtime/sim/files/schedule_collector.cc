#include "runtime/sim/files/schedule_collector.h"

#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/sim/files/quoted.h"

namespace sluice::sim {
namespace {

constexpr std::size_t kShownKeys = 8;

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

enum class LineKind { kHeader, kTensor, kOp };

absl::StatusOr<LineKind> KindOf(const Json& line) {
  const bool header = line.contains("schedule");
  const bool tensor = line.contains("tensor");
  const bool op = line.contains("op");
  if (static_cast<int>(header) + tensor + op != 1) {
    return absl::InvalidArgumentError(
        "a line has exactly one of the fields \"schedule\", \"tensor\" and \"op\"");
  }
  if (header) return LineKind::kHeader;
  return tensor ? LineKind::kTensor : LineKind::kOp;
}

}  // namespace

ScheduleCollector::ScheduleCollector(std::string file,
                                     std::optional<std::string> key,
                                     ReadLimits limits)
    : file_(std::move(file)),
      key_(std::move(key)),
      limits_(limits),
      model_bytes_left_(limits.model.count()) {}

absl::Status ScheduleCollector::At(std::uint64_t line, const absl::Status& status) const {
  return base::Annotate(status, fmt::format("{}:{}", file_, line));
}

absl::Status ScheduleCollector::AddLine(std::string_view line, std::uint64_t number) {
  if (IsBlank(line)) return absl::OkStatus();
  const absl::StatusOr<Json> parsed =
      ParseJsonLine(line, {.values = limits_.values, .depth = limits_.depth});
  if (!parsed.ok()) return At(number, parsed.status());
  return AddParsed(*parsed, number);
}

absl::Status ScheduleCollector::AddParsed(const Json& line, std::uint64_t number) {
  const absl::StatusOr<LineKind> kind = KindOf(line);
  if (!kind.ok()) return At(number, kind.status());
  if (*kind == LineKind::kHeader) {
    SLUICE_RETURN_IF_ERROR(EndSchedule(number - 1));
    builder_.emplace(limits_, number, &model_bytes_left_);
    SLUICE_RETURN_IF_ERROR(At(number, builder_->Begin(line)));
    return At(number, NoteKey(*builder_));
  }
  if (!builder_.has_value()) {
    return At(number,
              absl::InvalidArgumentError(
                  "no header stands before this line; begin with {\"schedule\": \"a name\"}"));
  }
  return At(number,
            *kind == LineKind::kTensor ? builder_->AddTensor(line) : builder_->AddOp(line, number));
}

absl::Status ScheduleCollector::NoteKey(const ScheduleBuilder& builder) {
  const std::string& key = builder.schedule().key;
  const auto [found, added] = keys_.try_emplace(key, builder.header_line());
  if (added) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the schedule of line {} has the key {}, too; give each a \"key\" of its own",
                  found->second,
                  Quoted(key)));
}

/// The schedule before a header, or before the end.
absl::Status ScheduleCollector::EndSchedule(std::uint64_t last) {
  if (!builder_.has_value()) return absl::OkStatus();
  const ScheduleBuilder::Failure failure = builder_->Check(last);
  SLUICE_RETURN_IF_ERROR(At(failure.line, failure.status));
  const FileSchedule& schedule = builder_->schedule();
  const bool wanted = key_.has_value()
                          ? schedule.key == *key_
                          : !best_.has_value() || schedule.ops.size() > best_->ops.size();
  if (wanted) best_ = builder_->TakeSchedule();
  builder_.reset();
  return absl::OkStatus();
}

absl::Status ScheduleCollector::NoSuchKey() const {
  std::string there;
  std::size_t shown = 0;
  for (const auto& [key, line] : keys_) {
    if (shown++ == kShownKeys) {
      there += ", ...";
      break;
    }
    there += (there.empty() ? "" : ", ") + Quoted(key);
  }
  return absl::NotFoundError(
      fmt::format("{} holds no schedule of key {}; there are {}", file_, Quoted(*key_), there));
}

absl::StatusOr<FileSchedule> ScheduleCollector::Finish(std::uint64_t last) {
  if (!builder_.has_value() && keys_.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{} holds no schedule; `sluice train --record FILE` writes one", file_));
  }
  SLUICE_RETURN_IF_ERROR(EndSchedule(last));
  if (!best_.has_value()) return NoSuchKey();
  return *std::move(best_);
}

}  // namespace sluice::sim
