#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "sluice/tensor.h"
#include "sluice/tier.h"
#include "sluice/units.h"

/// Reports of a Runtime while it runs:
///
///   class Alarms : public sluice::EventListener {
///     void OnFallback(const sluice::FallbackEvent& event) override { Warn(event.reason); }
///     void OnPageLost(const sluice::PageLostEvent& event) override { Warn(event.tensor); }
///   };
///   Alarms alarms;  // outlives the Runtime
///   options.listener = &alarms;
///   options.log = [](sluice::LogLevel, std::string_view line) { std::clog << line << "\n"; };

namespace sluice {

/// Severity of a line of the log.
enum class LogLevel { kInfo, kWarning, kError };

/// Receives every line of the log. The library writes nothing to stdout or stderr itself, but for
/// the text of a violated invariant just before it stops the program. Threads: called from internal
/// threads and from the thread in Runtime::Create, one call at a time. Must not call the Runtime.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

/// A page's only copy could not be read and could not be reproduced. Each tensor with bytes in the
/// page has an event.
struct PageLostEvent {
  std::string tensor;
  ByteRange range;  ///< bytes of the tensor that are lost
  absl::Status cause;
};

/// The Runtime works with less than it asked for. Use::kRequire in IoOptions and MemoryOptions
/// forbids each kind but "cuda", which DeviceKind::kCuda forbids, and "pinned_memory".
struct FallbackEvent {
  /// "io_uring", "o_direct", "nocow", "reserved_space", "huge_pages", "numa_binding", "numa_split",
  /// "off_lease", "cuda", "pinned_memory"
  std::string what;
  std::string reason;  ///< a sentence
  std::string chosen;  ///< the substitute
};

/// A tier refused pages. A later request asks it again.
struct TierFencedEvent {
  TierId tier;
  absl::Status cause;
};

/// Bytes of a tensor that are in one place alone and cannot be made again.
struct SoleCopy {
  std::string tensor;
  std::uint64_t bytes = 0;
};

/// A drive failed several times in a row, and nvme has others. The store writes to it no more. A
/// page with another copy goes to another drive when it leaves. A page without one goes there after
/// its next read, as long as the drive gives it.
struct DriveFencedEvent {
  std::string directory;
  absl::Status cause;
  /// Tensors with bytes on this drive alone. A page that the drive does not give back is lost with
  /// a PageLostEvent. Requests for pages of a drive that is gone (ENODEV and the like) fail with
  /// Unavailable, and work once it is back. Read the tensors soon to save them.
  std::vector<SoleCopy> sole_copies;
};

/// A transfer has taken longer than RuntimeOptions::stall_seconds. Nobody uses its frame until it
/// completes.
struct TransferStalledEvent {
  std::string tensor;
  TierId source;
  TierId target;
  double seconds = 0;
};

/// An op has waited for a lease of another op for longer than RuntimeOptions::stall_seconds. The
/// lease may be the caller's own: a caller that waits for a step while it holds one waits for ever.
struct LeaseStalledEvent {
  std::string op;           ///< name of the op that waits
  std::string tensor;       ///< a tensor that it waits for
  TierId tier;              ///< the tier in which it wants it
  double seconds = 0;       ///< time that it has waited
  std::string held_tensor;  ///< tensor of the lease; another one where its frames are wanted
  std::string held_by;      ///< name of the op whose lease it is
  double held_seconds = 0;  ///< age of the lease
};

/// Receiver of events that a user wants to know at once. Override the methods of interest.
/// Threads: called from one internal thread. Must not call the Runtime and must not block.
/// Lifetime: the listener outlives the Runtime.
class EventListener {
 public:
  virtual ~EventListener() = default;
  virtual void OnPageLost(const PageLostEvent&) {}
  virtual void OnFallback(const FallbackEvent&) {}
  virtual void OnTierFenced(const TierFencedEvent&) {}
  virtual void OnDriveFenced(const DriveFencedEvent&) {}
  virtual void OnTransferStalled(const TransferStalledEvent&) {}
  virtual void OnLeaseStalled(const LeaseStalledEvent&) {}
};

/// An interval of a timeline: a transfer on a link, a read from a file that is a home, a stall, or
/// an update of an optimizer.
struct TraceSpan {
  /// "hbm-dram in", "dram-nvme out", "file in", "stall"; OptimizerOptions::lane.
  std::string track;
  std::string name;  ///< tensor or op; for an optimizer also the number of elements
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

/// Receives every interval when it ends. Threads: called from internal and waiting threads at once,
/// and never after the Runtime's destructor has returned.
using TraceSink = std::function<void(const TraceSpan&)>;

}  // namespace sluice
