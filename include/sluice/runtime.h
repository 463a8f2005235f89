#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/op.h"
#include "sluice/options.h"
#include "sluice/policy.h"
#include "sluice/schedule.h"
#include "sluice/stats.h"
#include "sluice/stream.h"
#include "sluice/tensor.h"

/// Tensors that are larger than the memory they are used in:
///
///   auto runtime = sluice::Runtime::Create(options);
///   auto weights = (*runtime)->CreateTensor({.name = "weights", .shape = {4096, 4096}});
///   auto written = (*runtime)->Write(*weights, std::as_bytes(std::span(values)));
///   for (int step = 0; step < steps; ++step) {
///     auto begun = (*runtime)->BeginIteration("train");  // recorded once, then planned
///     sluice::Op op = (*runtime)->BeginOp({.name = "forward"});
///     auto lease = op.Acquire({.tensor = *weights});
///     if (!lease.ok()) return lease.status();
///     Forward(lease->As<float>());
///   }
///
/// examples/hello and examples/recorded_loop are whole programs.

namespace sluice {

namespace internal {
class RuntimeAccess;
class RuntimeState;
class ReservationState;
}  // namespace internal

/// Frames that are not paged, charged to a tier's budget until destruction.
class Reservation {
 public:
  Reservation();
  Reservation(Reservation&&) noexcept;
  Reservation& operator=(Reservation&&) noexcept;
  ~Reservation();
  /// One span per frame.
  const std::vector<std::span<std::byte>>& Spans() const;

 private:
  friend class Runtime;
  explicit Reservation(std::shared_ptr<internal::ReservationState> state);
  std::shared_ptr<internal::ReservationState> state_;
};

enum class HealthState { kOk, kDegraded, kDead };

struct HealthReport {
  HealthState state = HealthState::kOk;
  /// One sentence per reason, empty when all is well.
  std::vector<std::string> reasons;
};

/// The paging engine: owns the tiers, moves the pages, answers leases.
/// Threads: every method may be called from any thread. Lifetime: outlives no stream; leases, ops
/// and tickets may outlive it and are then empty.
/// Fork: a Runtime, with all that it gave out, belongs to the process that made it. In a child of
/// that process, whatever its threads were doing, every call returns at once and changes nothing:
/// FailedPrecondition where there is a status; else Health is kDead, GetStats empty, and streams
/// drop their work. What the child destroys, the Runtime itself too, is only let go: nothing is
/// waited for or given back, and the objects stay with the child until it ends. The bytes of leases
/// and reservations are not there (SIGSEGV). A child that needs a Runtime makes one of its own.
/// Until it ends or calls exec a child keeps the parent's memory and spill file from being freed,
/// so one that stays is better forked before the Runtime is made. A child forked in a callback must
/// not return from it.
class Runtime {
 public:
  /// Sets up arenas, device, spill file and threads. Errors: InvalidArgument (names the option),
  /// ResourceExhausted (budgets, with all that the Runtime takes beside them, above what the
  /// machine or its cgroup has left, a full spill directory, a thread that cannot be started),
  /// PermissionDenied (spill directory foreign or writable by others), FailedPrecondition (a
  /// fallback that the options forbid).
  static absl::StatusOr<std::unique_ptr<Runtime>> Create(RuntimeOptions options);
  /// Waits for transfers in flight, names leaked leases in the log, frees everything.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Creates tensors together in one segment (they may share pages, and so must have one `lowest`
  /// tier and no file home unless alone). Each starts at a multiple of 64 bytes.
  /// Errors: InvalidArgument, ResourceExhausted (nvme and dram have no capacity left for all
  /// pages: names what is needed and what is left in each; nothing is created).
  absl::StatusOr<std::vector<TensorId>> CreateTensors(std::span<const TensorSpec> specs);
  absl::StatusOr<TensorId> CreateTensor(const TensorSpec& spec);
  /// Creates a tensor with the content of `bytes` (copied before the call returns), then calls
  /// `deleter`. Errors: as CreateTensor, and InvalidArgument when sizes differ; the deleter is not
  /// called on error.
  absl::StatusOr<TensorId> Adopt(const TensorSpec& spec,
                                 std::span<const std::byte> bytes,
                                 std::function<void()> deleter);
  /// Writes `bytes` into the tensor from byte `offset` on, or reads them from there. The copy goes
  /// through leases of at most 16 MiB, or a page, in dram (hbm for a tensor whose `lowest` is hbm),
  /// so any size works with any budget. It waits for leases of the same bytes, like any op: a
  /// caller that holds one of them itself waits for ever. Errors: NotFound, InvalidArgument (not a
  /// range of the tensor), else as Ticket::Take; a part may have been copied then.
  absl::Status Write(TensorId tensor, std::span<const std::byte> bytes, std::uint64_t offset = 0);
  absl::Status Read(TensorId tensor, std::span<std::byte> bytes, std::uint64_t offset = 0);
  /// Frees a tensor once its leases are gone. Errors: NotFound.
  absl::Status Free(TensorId tensor);
  /// Declares content dead: its pages are dropped without a write and read as zeros afterwards.
  /// Acts on the whole pages inside the range, after the leases and requests made before it.
  /// Errors: NotFound, InvalidArgument.
  absl::Status Discard(TensorId tensor, ByteRange range = kWholeTensor);

  /// The bytes of the tensor; its name; the type of its elements. Errors: NotFound.
  absl::StatusOr<Bytes> SizeOfTensor(TensorId tensor) const;
  absl::StatusOr<std::string> NameOfTensor(TensorId tensor) const;
  absl::StatusOr<DType> TypeOfTensor(TensorId tensor) const;
  /// RuntimeOptions::page_bytes.
  Bytes PageBytes() const;
  /// The NUMA nodes on which frames of dram lie, at least one: the processors near each that
  /// threads may use (none: any). Who works on spans of a lease works best where they are
  /// (Lease::Nodes).
  std::vector<std::vector<int>> DramNodes() const;

  /// Starts the next iteration of `key`. The first of a key is recorded, later ones follow it.
  absl::Status BeginIteration(std::string_view key);
  /// Ends the current iteration; what follows belongs to none. BeginIteration implies it.
  absl::Status EndIteration();
  /// Never blocks.
  Op BeginOp(OpOptions options);
  /// A hint: these will be needed soon. Errors: as AcquireAll's.
  absl::Status Prefetch(std::span<const Access> accesses);

  /// Frames of hbm or dram for what is not paged. Blocks until evictions made room.
  /// Errors: ResourceExhausted, InvalidArgument.
  absl::StatusOr<Reservation> Reserve(TierId tier, Bytes bytes);
  /// Shrinks or grows hbm or dram, up to the budget at creation. Shrinking returns when the memory
  /// is back with the system. Errors: InvalidArgument (below the least that paging needs, above the
  /// budget at creation, no tier with leases), ResourceExhausted (the tier holds more by leases,
  /// reservations and tensors for good, or less memory is left than it grows by: names the sums),
  /// FailedPrecondition (memory that is taken again lacks what the options require), or that of the
  /// system; the budget stays what it was then.
  absl::Status SetBudget(TierId tier, Bytes bytes);
  /// Replaces the emulated device's modelled rates, in bytes per second: 0 (as fast as the host
  /// copies), or at least 1. Errors: FailedPrecondition for another device, InvalidArgument
  /// (negative, between 0 and 1, not finite): the rates stay as they are.
  absl::Status SetEmulatedRates(double in_bytes_per_second, double out_bytes_per_second);

  /// Errors: ResourceExhausted (the stream's thread cannot be started).
  absl::StatusOr<StreamRef> CreateStream();
  /// RuntimeOptions::trace, for intervals of the caller's own; empty where there is none.
  const TraceSink& Trace() const;
  HealthReport Health() const;
  Stats GetStats() const;
  /// The recorded schedule of a key. Errors: NotFound before its first iteration has ended, when
  /// that was too long or when others have displaced it (RuntimeOptions::schedules_max).
  absl::StatusOr<Schedule> RecordedSchedule(std::string_view key) const;

 private:
  friend class internal::RuntimeAccess;
  explicit Runtime(std::shared_ptr<internal::RuntimeState> state);
  std::shared_ptr<internal::RuntimeState> state_;
};

}  // namespace sluice
