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
///     void OnPageLost(const sluice::PageLostEvent& event) override { Page(event.tensor); }
///   };
///   Alarms alarms;  // outlives the Runtime
///   options.listener = &alarms;
///   options.log = [](sluice::LogLevel, std::string_view line) { std::clog << line << "\n"; };

namespace sluice {

enum class LogLevel { kInfo, kWarning, kError };

/// Receives every line the library has to say; the library never writes to stdout or stderr itself
/// (except the text of a violated invariant, just before it stops the program).
/// Threads: called from internal threads, one call at a time; must not call the Runtime.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

/// A page's only copy could not be read and could not be reproduced.
struct PageLostEvent {
  std::string tensor;
  ByteRange range;
  absl::Status cause;
};

/// The runtime works, but with less than the machine or the options promise. Each kind can be
/// forbidden: Use::kRequire in IoOptions and MemoryOptions.
struct FallbackEvent {
  /// "io_uring", "o_direct", "nocow", "reserved_space", "huge_pages", "numa_binding", "numa_split"
  std::string what;
  std::string reason;  ///< why, as a sentence
  std::string chosen;  ///< what is used in its place
};

/// A tier stopped taking pages.
struct TierFencedEvent {
  TierId tier;
  absl::Status cause;
};

/// Bytes of a tensor that are in one place alone and cannot be made again.
struct SoleCopy {
  std::string tensor;
  std::uint64_t bytes = 0;
};

/// One of several drives of nvme failed several times in a row. It is written no more; its pages
/// that have another copy are written elsewhere when they leave, the others once they were read
/// from it, as long as it gives them.
struct DriveFencedEvent {
  std::string directory;
  absl::Status cause;
  /// What it alone held at that moment: what it gives back wrong or not at all is lost, each page
  /// with a PageLostEvent of its own, but for a drive that is gone (ENODEV and the like): requests
  /// then fail with Unavailable, and work once it is back. Read it soon to save what can be.
  std::vector<SoleCopy> sole_copies;
};

/// A transfer passed its deadline and has not completed; its frame is quarantined until it does.
struct TransferStalledEvent {
  std::string tensor;
  TierId source;
  TierId target;
  double seconds = 0;
};

/// An op waits for what a lease holds, for longer than RuntimeOptions::stall_seconds. The lease may
/// be the caller's own: whoever waits for a step while holding one waits for ever.
struct LeaseStalledEvent {
  std::string op;           ///< name of the op that waits
  std::string tensor;       ///< a tensor that it waits for
  TierId tier;              ///< the tier in which it wants it
  double seconds = 0;       ///< time that it has waited
  std::string held_tensor;  ///< tensor of the lease; another one where its frames are wanted
  std::string held_by;      ///< name of the op whose lease it is
  double held_seconds = 0;  ///< age of the lease
};

/// Told about what a user wants to know at once. Override what is of interest.
/// Threads: called from one internal thread; must not call the Runtime and must not block.
/// Lifetime: outlives the Runtime.
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

/// One interval of a timeline: a transfer on a link, a stall, or what an optimizer computes.
struct TraceSpan {
  std::string track;  ///< "hbm-dram in", "dram-nvme out", "stall"; OptimizerOptions::lane
  std::string name;   ///< tensor or op; of an optimizer's with the number of elements
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

/// Receives every interval as it ends. Threads: called from internal and waiting threads at once;
/// not called any more once the Runtime's destructor has returned.
using TraceSink = std::function<void(const TraceSpan&)>;

}  // namespace sluice
