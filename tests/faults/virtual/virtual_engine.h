#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>

#include "io/engine/io_engine.h"
#include "io/engine/request_queue.h"
#include "tests/faults/virtual/virtual_clock.h"
#include "tests/support/store/memory_engine.h"

namespace sluice::faults {

/// A kernel that takes no submission for a while (io_uring_enter gives EAGAIN or EBUSY).
struct Refusal {
  int error_number = 0;
  /// The number of the submission that is refused first, counted from 0.
  std::uint64_t submission = UINT64_MAX;
  std::uint64_t times = 0;
};

struct VirtualEngineOptions {
  /// Attempts in flight at a time. Other requests wait in a queue like that of a ring.
  std::uint32_t in_flight_max = 8;
  /// Seed of the latencies. Another seed gives another order of completions.
  std::uint64_t seed = 1;
  std::chrono::microseconds latency_min{40};
  std::chrono::microseconds latency_max{400};
  Refusal refusal;
};

/// A disk in virtual time over a MemoryFile.
/// - Attempts take seeded latencies, so they complete out of order.
/// - Bytes move at the very end of an attempt. So a test finds memory that is reused too early.
/// - Memory can be registered as with a ring.
/// - Refused submissions are tried again every millisecond, and fail after a hundred times, as with
///   a ring.
/// Threads: that of the clock.
class VirtualEngine final : public io::IoEngine {
 public:
  /// `clock` outlives the engine.
  VirtualEngine(VirtualClock& clock,
                std::shared_ptr<testing::MemoryFile> file,
                const VirtualEngineOptions& options)
      : clock_(clock), file_(std::move(file)), options_(options), random_(options.seed) {}
  ~VirtualEngine() override;

  void Hasten(const io::IoFile& file, std::uint64_t offset, std::uint64_t bytes) override {
    queue_.Hasten(file, offset, bytes);
  }
  io::RegisteredMemory RegisterMemory(std::span<std::byte> memory) override;
  void UnregisterMemory(std::span<std::byte> memory) override;
  std::string_view name() const override { return "virtual"; }
  /// Registered bytes at present.
  std::uint64_t registered_bytes() const;
  /// Ends all refusals of submissions.
  void Heal() { healed_ = true; }
  /// Refused submissions so far.
  std::uint64_t refusals() const { return refusals_; }

 protected:
  void SubmitChecked(io::IoRequest* request) override;

 private:
  void Fill();
  bool Refused();
  void WaitOutRefusal();
  void FailWaiting();
  void Start(io::IoRequest* request);
  void Finish(io::IoRequest* request);
  std::chrono::microseconds Latency();

  VirtualClock& clock_;
  const std::shared_ptr<testing::MemoryFile> file_;
  const VirtualEngineOptions options_;
  std::mt19937_64 random_;
  io::RequestQueue queue_;
  std::uint32_t in_flight_ = 0;
  std::uint64_t submissions_ = 0;
  std::uint64_t refusals_ = 0;
  int refusals_in_a_row_ = 0;
  std::map<const std::byte*, std::size_t> registered_;  ///< bytes of each piece
  bool healed_ = false;
  bool waits_ = false;  ///< true while the kernel takes no submissions
};

}  // namespace sluice::faults
