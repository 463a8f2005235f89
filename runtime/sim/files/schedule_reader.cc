#include "runtime/sim/files/schedule_reader.h"

#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/sim/files/gzip_inflater.h"
#include "runtime/sim/files/line_splitter.h"
#include "runtime/sim/files/schedule_collector.h"

namespace sluice::sim {
namespace {

constexpr std::string_view kGzipMagic = "\x1f\x8b";

}  // namespace

/// Stages of a reader: from bytes to text, to lines, to schedules.
class ScheduleReader::State {
 public:
  explicit State(Options options)
      : file_(options.file),
        collector_(options.file, std::move(options.key), options.limits),
        lines_(options.file,
               {.line = options.limits.line, .text = options.limits.text},
               [this](std::string_view line, std::uint64_t number) {
                 return collector_.AddLine(line, number);
               }) {}

  absl::Status Append(std::string_view bytes);
  absl::StatusOr<FileSchedule> Finish();

 private:
  absl::Status Start(std::string_view bytes);
  absl::Status AppendBytes(std::string_view bytes);
  absl::Status EndOfInput();

  const std::string file_;
  ScheduleCollector collector_;
  LineSplitter lines_;
  /// The first bytes, until they tell what the file is.
  std::string start_;
  bool started_ = false;
  std::optional<GzipInflater> inflater_;
  absl::Status status_;
};

absl::Status ScheduleReader::State::AppendBytes(std::string_view bytes) {
  return inflater_.has_value() ? inflater_->Append(bytes) : lines_.Append(bytes);
}

absl::Status ScheduleReader::State::Start(std::string_view bytes) {
  start_ += bytes;
  if (start_.size() < kGzipMagic.size()) return absl::OkStatus();
  started_ = true;
  if (start_.starts_with(kGzipMagic)) {
    inflater_.emplace(file_, [this](std::string_view text) { return lines_.Append(text); });
  }
  return AppendBytes(std::exchange(start_, {}));
}

absl::Status ScheduleReader::State::Append(std::string_view bytes) {
  if (status_.ok()) status_ = started_ ? AppendBytes(bytes) : Start(bytes);
  return status_;
}

absl::Status ScheduleReader::State::EndOfInput() {
  if (!started_) SLUICE_RETURN_IF_ERROR(lines_.Append(start_));
  if (inflater_.has_value()) SLUICE_RETURN_IF_ERROR(inflater_->Finish());
  absl::Status last = lines_.Finish();
  if (last.ok()) return last;
  return {last.code(),
          base::ToAbsl(fmt::format("{} (the file ends within this line: was it cut short?)",
                                   base::ToStd(last.message())))};
}

absl::StatusOr<FileSchedule> ScheduleReader::State::Finish() {
  if (status_.ok()) status_ = EndOfInput();
  if (!status_.ok()) return status_;
  return collector_.Finish(lines_.line_number() - 1);
}

ScheduleReader::ScheduleReader(Options options)
    : state_(std::make_unique<State>(std::move(options))) {}
ScheduleReader::~ScheduleReader() = default;

absl::Status ScheduleReader::Append(std::string_view bytes) { return state_->Append(bytes); }
absl::StatusOr<FileSchedule> ScheduleReader::Finish() { return state_->Finish(); }

}  // namespace sluice::sim
