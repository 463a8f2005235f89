#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "sluice/events.h"
#include "tools/support/output/atomic_file.h"

namespace sluice::tools {

/// A timeline in the Chrome trace event format (Perfetto and chrome://tracing read it). Each name
/// has one track, and more ("NAME (2)") where its intervals overlap: those of one track must not.
/// The file is written as the intervals arrive, so that it needs no memory. Threads: Add and
/// AddCounters from any thread.
class TraceFile {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Begins a timeline. Times count from `begin`. Errors: those of AtomicFile.
  static absl::StatusOr<std::unique_ptr<TraceFile>> Create(
      const std::string& path, Time begin = std::chrono::steady_clock::now());

  void Add(const TraceSpan& span);
  /// Adds values of one counter track at `time`, by series.
  void AddCounters(std::string_view track,
                   Time time,
                   const std::map<std::string, std::uint64_t>& values);
  /// Completes the file and gives it its name. Errors: those of every write so far.
  absl::Status Finish();

 private:
  TraceFile(std::unique_ptr<AtomicFile> file, Time begin);
  double Microseconds(Time time) const;
  int TrackNumber(const std::string& track) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Takes the first of the name's tracks that is idle at `begin`, until `end`. Returns its number.
  int IdleTrack(const std::string& name, Time begin, Time end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Append(std::string_view event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Time begin_;
  base::Mutex mutex_;
  std::unique_ptr<AtomicFile> file_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> tracks_ ABSL_GUARDED_BY(mutex_);
  /// Time at which each track of a name is idle again.
  std::map<std::string, std::vector<Time>> idle_from_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::tools
