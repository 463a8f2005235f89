#pragma once

#include <cstddef>
#include <cstdint>
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
#include "sluice/weights.h"

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

/// Pinned frames of a tier that are never paged. The tier's budget is charged until destruction.
/// Lifetime: may outlive the Runtime; its spans must not be touched then.
class Reservation {
 public:
  Reservation();
  Reservation(Reservation&&) noexcept;
  Reservation& operator=(Reservation&&) noexcept;
  ~Reservation();
  /// Spans of page_bytes, one per frame. REQUIRES: not default-constructed nor moved from.
  const std::vector<std::span<std::byte>>& Spans() const;

 private:
  friend class Runtime;
  explicit Reservation(std::shared_ptr<internal::ReservationState> state);
  std::shared_ptr<internal::ReservationState> state_;
};

/// Health of a Runtime:
/// - kOk: there is nothing to report.
/// - kDegraded: the Runtime answers requests, and something is wrong. A fallback, a failed drive, a
///   lost GPU, lost content or a stalled transfer counts until the end; a tier that refuses pages
///   counts until it takes one.
/// - kDead: the Runtime answers no request, as in a child of fork.
enum class HealthState { kOk, kDegraded, kDead };

/// Health, and what it is due to (Runtime::Health).
struct HealthReport {
  HealthState state = HealthState::kOk;
  /// Sentences, one per reason; empty when all is well.
  std::vector<std::string> reasons;
};

/// The paging engine: it owns the tiers, moves the pages, and answers requests for leases.
/// Threads: every method may be called from any thread. Lifetime: leases, ops, tickets, streams and
/// reservations may outlive the Runtime.
///
/// After the destructor:
/// - A lease still reports valid(), but its bytes must not be touched. The same holds for the spans
///   of a reservation.
/// - Tickets that were not taken fail with Cancelled, and so do requests of ops.
/// - A stream does nothing.
///
/// The destructor waits for calls of streams in other threads, the work of its own streams, and
/// leases and ops that adopted streams keep. On a GPU the driver also waits for all running work as
/// it gives registered dram back.
///
/// Fork: a Runtime belongs to the process that made it. In a child of that process:
/// - Every call returns at once and changes nothing. A call with a status says FailedPrecondition;
///   Health is kDead, GetStats is empty, and streams drop their work.
/// - Destructors wait for nothing and give nothing back.
/// - The bytes of leases and reservations are not mapped (SIGSEGV).
/// - A child that needs a Runtime makes its own. A child forked in a callback must not return.
/// The child keeps the parent's memory and spill file allocated until it ends or calls exec. A
/// child that stays is better forked before the Runtime is made.
class Runtime {
 public:
  /// Sets up arenas, device, spill file and threads. Errors:
  /// - InvalidArgument: names the option.
  /// - ResourceExhausted: the sum of memory does not fit the machine or its cgroup, the spill
  ///   directory is full, or a thread cannot be started.
  /// - NotFound: there is no such spill directory, or no GPU that CudaOptions::gpu names.
  /// - PermissionDenied: the spill directory is foreign or writable by others.
  /// - FailedPrecondition: a fallback that the options forbid, or no GPU for DeviceKind::kCuda.
  /// - Cancelled: RuntimeOptions::stop gave true.
  /// - Others: those of the system and of the GPU's driver.
  static absl::StatusOr<std::unique_ptr<Runtime>> Create(RuntimeOptions options);
  /// Waits for transfers in flight, names leaked leases in the log, frees everything.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Creates tensors in one segment, where they may share pages. Specs that are created together
  /// have the same `lowest` and `off_lease`. They have no file home, or homes with read_only in one
  /// file, in the order of their bytes. A tensor starts at a multiple of 64 bytes, or where it does
  /// in a file that is only read. Errors, each of which creates nothing:
  /// - InvalidArgument: a spec is wrong, or its file is no regular file or shorter than the tensor.
  /// - ResourceExhausted: nvme and dram lack capacity for all pages. The message names the need and
  ///   the rest of each tier.
  /// - ResourceExhausted: a readable tensor lacks addresses or mappings (vm.max_map_count), or a
  ///   thread that reads files cannot be started.
  /// - NotFound, PermissionDenied, others of open(2): those of opening a file home.
  /// - FailedPrecondition: a fallback that the options forbid.
  /// - Cancelled: the Runtime shuts down.
  absl::StatusOr<std::vector<TensorId>> CreateTensors(std::span<const TensorSpec> specs);
  /// Creates one tensor. Errors: as CreateTensors.
  absl::StatusOr<TensorId> CreateTensor(const TensorSpec& spec);
  /// Creates a tensor with the content of `bytes` (copied before the call returns), then calls
  /// `deleter`, which may be empty. Errors, which create nothing and do not call the deleter: as
  /// CreateTensors and Write, and InvalidArgument (sizes differ, or `spec` has a file home or is
  /// joined of others).
  absl::StatusOr<TensorId> Adopt(const TensorSpec& spec,
                                 std::span<const std::byte> bytes,
                                 std::function<void()> deleter);
  /// Creates a tensor for each weight of a checkpoint (sluice/weights.h), in the order of files and
  /// bytes. Weights of one file share pages, and are only read. Errors, each of which creates
  /// nothing, besides those of CreateTensors:
  /// - NotFound, InvalidArgument: no safetensors file, or a header or an index that contradicts the
  ///   files. The message names file and tensor.
  /// - NotFound, InvalidArgument: no checksums though WeightOptions::sums requires them, or none of
  ///   one file.
  /// - InvalidArgument: a file of checksums that is not one.
  /// - DataLoss: an index, a header or checksums that cannot be read whole.
  /// - FailedPrecondition, DataLoss: a file changed, or became shorter, meanwhile.
  absl::StatusOr<std::vector<Weight>> OpenWeights(const std::string& path,
                                                  const WeightOptions& options = {});
  /// Copies `bytes` into the tensor from byte `offset` on (Write), or out of it (Read). The copy
  /// goes through leases in dram, or in hbm if `lowest` is hbm. A lease has at most 16 MiB or one
  /// page, so any size works with any budget. Write waits for every other lease of its pages, Read
  /// for those that write. A caller that holds such a lease waits for ever.
  ///
  /// Errors: NotFound, InvalidArgument (no range of the tensor; of Write also bytes of AddressOf
  /// onto themselves), those of Ticket::Take, of Read also those of Prefetch. A part may have been
  /// copied after one of the latter two.
  absl::Status Write(TensorId tensor, std::span<const std::byte> bytes, std::uint64_t offset = 0);
  absl::Status Read(TensorId tensor, std::span<std::byte> bytes, std::uint64_t offset = 0);
  /// Frees a tensor once its leases are gone, for which the call does not wait. Requests made
  /// before the call come first. Blocks while the request queue is full. Errors: NotFound,
  /// Cancelled (the Runtime shuts down).
  absl::Status Free(TensorId tensor);
  /// Declares content dead: the whole pages inside the range are dropped without a write, and read
  /// as zeros afterwards. Leases and requests made before the call come first. Blocks while the
  /// request queue is full. Errors: NotFound, InvalidArgument (no range of the tensor, or a tensor
  /// that is only read), Cancelled (the Runtime shuts down).
  absl::Status Discard(TensorId tensor, ByteRange range = kWholeTensor);

  /// Size in bytes, name, element type, and shape of the tensor. Errors: NotFound.
  absl::StatusOr<Bytes> SizeOfTensor(TensorId tensor) const;
  absl::StatusOr<std::string> NameOfTensor(TensorId tensor) const;
  absl::StatusOr<DType> TypeOfTensor(TensorId tensor) const;
  absl::StatusOr<std::vector<std::int64_t>> ShapeOfTensor(TensorId tensor) const;
  /// OK if a request for the access is valid: the tensor may reach the tier and allows the mode.
  /// The call asks for nothing, so a program can check a tensor before its work.
  /// Errors: InvalidArgument (as Ticket::Take), Cancelled (the Runtime shuts down).
  absl::Status CheckAccess(const Access& access) const;
  /// The tensor's bytes at its address in dram, which its contiguous leases in dram have, too.
  /// TensorSpec::off_lease says what is there outside a lease. Lifetime: the tensor's, and the
  /// Runtime's; a child of fork does not have them.
  ///
  /// Threads: any may read there at any time. Bytes that a lease is writing are seen as they come;
  /// under a kOverwrite lease others may be there until then. Errors: NotFound, InvalidArgument
  /// (the tensor is never in dram), ResourceExhausted (addresses), Cancelled (the Runtime shuts
  /// down).
  absl::StatusOr<std::span<const std::byte>> AddressOf(TensorId tensor) const;
  /// Size of a page: RuntimeOptions::page_bytes, or the size that a 0 there stands for.
  Bytes PageBytes() const;
  /// Processors of each NUMA node that holds frames of dram, at least one node. An empty list
  /// stands for any processor. Work on a span runs best on the node of the span (Lease::Nodes).
  std::vector<std::vector<int>> DramNodes() const;

  /// Starts an iteration of `key`. The first iteration of a key is recorded; later ones are
  /// expected to repeat it. All threads and lanes have one current iteration. An op belongs to the
  /// one that is current at its BeginOp. Blocks while the request queue is full.
  /// Errors: Cancelled (the Runtime shuts down).
  absl::Status BeginIteration(std::string_view key);
  /// Ends the current iteration. Later ops belong to no iteration. BeginIteration implies the call.
  /// Blocks while the request queue is full. Errors: FailedPrecondition (there is no current
  /// iteration), Cancelled (the Runtime shuts down).
  absl::Status EndIteration();
  /// Begins an op, in the current iteration if there is one. Never blocks.
  Op BeginOp(OpOptions options);
  /// Hints that these accesses come soon, or after `ops_ahead` further ops. Pages of later accesses
  /// are not fetched yet. They stay in preference to pages whose next access is later or unknown,
  /// until a schedule is recorded: policies that know no schedule pass over the hint. Ops count
  /// within iterations. Schedules do not record the hint.
  ///
  /// Blocks while the request queue is full, but not for pages. Errors: InvalidArgument (as
  /// Ticket::Take), ResourceExhausted (addresses of a contiguous access), Cancelled (the Runtime
  /// shuts down).
  absl::Status Prefetch(std::span<const Access> accesses, std::uint32_t ops_ahead = 0);

  /// Takes frames of hbm or dram out of paging, `bytes` rounded up to whole pages. Frames of dram
  /// beside a GPU are pinned memory, from which a framework may copy (see Lease::pinned). Blocks
  /// until evictions have made room. Errors: InvalidArgument (0, above the budget, not hbm or
  /// dram), ResourceExhausted (leases, reservations and committed tensors leave too little),
  /// Cancelled (the Runtime shuts down).
  absl::StatusOr<Reservation> Reserve(TierId tier, Bytes bytes);
  /// Shrinks hbm or dram, or grows it up to the budget at creation. A call that shrinks returns
  /// once the system has the memory back. Dram beside a GPU goes back at the end of the current
  /// iteration, as that waits for running kernels. No page is in it from the call on. Errors, which
  /// leave the budget as it was:
  /// - InvalidArgument: below the least that paging needs, above the budget at creation, or neither
  ///   hbm nor dram.
  /// - ResourceExhausted: leases, reservations and committed tensors need more, or the machine has
  ///   less left than the tier grows by. The message names the sums.
  /// - FailedPrecondition: the new memory lacks what the options require.
  /// - Cancelled: the Runtime shuts down.
  /// - Others: those of the system.
  absl::Status SetBudget(TierId tier, Bytes bytes);
  /// Replaces the modelled rates of the emulated device, in bytes per second, at least 1. 0 means
  /// as fast as the host copies. An error leaves the rates as they were.
  /// Errors: FailedPrecondition (another device, or none), InvalidArgument (any other value).
  absl::Status SetEmulatedRates(double in_bytes_per_second, double out_bytes_per_second);

  /// Makes a stream: of the GPU if hbm is its memory, else a thread. Errors: ResourceExhausted (the
  /// thread cannot be started), those of the GPU's driver, such as Unavailable (a dead GPU).
  absl::StatusOr<StreamRef> CreateStream();
  /// The user's cudaStream_t, the legacy default stream (null) and the calling thread's own
  /// included, for leases of its work. The Runtime never synchronises or destroys it. The stream
  /// outlives the Runtime, or the last work that was named to it. Errors: InvalidArgument (no CUDA
  /// device).
  absl::StatusOr<StreamRef> AdoptStream(void* cuda_stream);
  /// RuntimeOptions::trace, for the caller's own intervals; empty if there is none.
  const TraceSink& Trace() const;
  /// State of the Runtime and the reasons for it. Never blocks.
  HealthReport Health() const;
  /// Counters and figures of now (sluice/stats.h). Waits for an answer of the core thread, and
  /// while the request queue is full.
  Stats GetStats() const;
  /// The recorded schedule of a key. Errors: NotFound (no iteration has ended, the last one was too
  /// long, or newer schedules displaced this one: RuntimeOptions::recorded_accesses_max,
  /// schedules_max).
  absl::StatusOr<Schedule> RecordedSchedule(std::string_view key) const;

 private:
  friend class internal::RuntimeAccess;
  explicit Runtime(std::shared_ptr<internal::RuntimeState> state);
  std::shared_ptr<internal::RuntimeState> state_;
};

/// Installs a handler that names the tensor of a SIGSEGV or SIGBUS at an address of any Runtime's
/// tensors. The handler writes one line to standard error, then runs the action that was installed
/// before. Any other such signal goes to that action at once. A handler that is installed later has
/// to pass signals on. Threads: any. Calls after the first do nothing, and return what that did.
/// Errors: those of sigaction(2).
absl::Status NameStrayTouches();

}  // namespace sluice
