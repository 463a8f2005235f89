#include "tools/support/trace_file.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace sluice::tools {
namespace {

std::string Quoted(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

TraceFile::TraceFile(std::unique_ptr<AtomicFile> file, Time begin)
    : begin_(begin), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<TraceFile>> TraceFile::Create(const std::string& path, Time begin) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  SLUICE_RETURN_IF_ERROR(file->Append("{\"traceEvents\":["));
  return std::unique_ptr<TraceFile>(new TraceFile(std::move(file), begin));
}

double TraceFile::Microseconds(Time time) const {
  return std::chrono::duration<double, std::micro>(time - begin_).count();
}

void TraceFile::Append(std::string_view event) {
  // Transfers may end after the file is complete.
  if (status_.ok() && !finished_) status_ = file_->Append(event);
}

int TraceFile::TrackNumber(const std::string& track) {
  const auto next = static_cast<int>(tracks_.size()) + 1;
  const auto [entry, inserted] = tracks_.try_emplace(track, next);
  if (inserted) {
    Append(
        fmt::format("{}\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\","
                    "\"args\":{{\"name\":{}}}}}",
                    next == 1 ? "" : ",",
                    next,
                    Quoted(track)));
  }
  return entry->second;
}

int TraceFile::IdleTrack(const std::string& name, Time begin, Time end) {
  std::vector<Time>& idle_from = idle_from_[name];
  const auto idle =
      std::find_if(idle_from.begin(), idle_from.end(), [&](Time from) { return from <= begin; });
  const auto index = idle - idle_from.begin();
  if (idle == idle_from.end()) {
    idle_from.push_back(end);
  } else {
    *idle = end;
  }
  return TrackNumber(index == 0 ? name : fmt::format("{} ({})", name, index + 1));
}

void TraceFile::Add(const TraceSpan& span) {
  base::MutexLock lock(mutex_);
  const int track = IdleTrack(span.track, span.begin, span.end);
  const double begin = Microseconds(span.begin);
  Append(fmt::format(
      ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"name\":{}}}",
      track,
      begin,
      Microseconds(span.end) - begin,
      Quoted(span.name)));
}

void TraceFile::AddCounters(std::string_view track,
                            Time time,
                            const std::map<std::string, std::uint64_t>& values) {
  base::MutexLock lock(mutex_);
  const int number = TrackNumber(std::string(track));
  Append(
      fmt::format(",\n{{\"ph\":\"C\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"name\":{},\"args\":{}}}",
                  number,
                  Microseconds(time),
                  Quoted(track),
                  nlohmann::json(values).dump()));
}

absl::Status TraceFile::Finish() {
  base::MutexLock lock(mutex_);
  Append("\n],\"displayTimeUnit\":\"ms\"}\n");
  if (status_.ok()) status_ = file_->Commit();
  finished_ = true;
  return status_;
}

}  // namespace sluice::tools
