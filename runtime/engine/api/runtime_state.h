#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "runtime/engine/api/copy_lanes.h"
#include "runtime/engine/api/name_table.h"
#include "runtime/engine/api/op_state.h"
#include "runtime/engine/api/stream_state.h"
#include "runtime/engine/api/tensor_table.h"
#include "runtime/engine/control/background_planner.h"
#include "runtime/engine/control/core_thread.h"
#include "runtime/engine/control/mailbox.h"
#include "runtime/engine/control/schedule_recorder.h"
#include "runtime/engine/control/ticket_state.h"
#include "runtime/engine/control/tier_budgets.h"
#include "runtime/engine/data/link_meter.h"
#include "runtime/engine/data/serial_executor.h"
#include "runtime/engine/mover/data_mover.h"
#include "runtime/engine/report/event_log.h"
#include "runtime/engine/report/health_monitor.h"
#include "runtime/engine/report/logger.h"
#include "runtime/engine/report/wait_meter.h"
#include "runtime/engine/setup/backends.h"
#include "runtime/engine/setup/process_bound.h"
#include "sluice/runtime.h"

namespace sluice::internal {

/// Frames that are not paged; see Reservation. Threads: destroyed on any thread.
class ReservationState {
 public:
  ReservationState(std::shared_ptr<engine::Mailbox> mailbox,
                   core::ReservationNumber number,
                   std::vector<std::span<std::byte>> spans)
      : mailbox_(std::move(mailbox)), number_(number), spans_(std::move(spans)) {}
  ~ReservationState() { mailbox_->Post(engine::ReleaseFramesNotice{number_}); }
  ReservationState(const ReservationState&) = delete;
  ReservationState& operator=(const ReservationState&) = delete;

  const std::vector<std::span<std::byte>>& spans() const { return spans_; }

 private:
  const std::shared_ptr<engine::Mailbox> mailbox_;
  const core::ReservationNumber number_;
  const std::vector<std::span<std::byte>> spans_;
};

using engine::ShutDownError;

/// All of a Runtime. One file per concern:
///   runtime_state.cc    create, shut down
///   runtime_tensors.cc  create, adopt, free, discard
///   runtime_views.cc    addresses outside a lease
///   runtime_copies.cc   write, read
///   runtime_ops.cc      iterations, ops, requests, hints
///   runtime_budgets.cc  reservations, budgets, rates, streams
///   runtime_stats.cc    stats, fallbacks and schedules that Runtime reports
/// Ops hold the state weakly: it may be gone, or shut down, when they use it. Calls from outside
/// ask CheckProcess first.
/// Threads: all methods from any thread, but for Shutdown, which is called once and last.
class RuntimeState : public std::enable_shared_from_this<RuntimeState> {
 public:
  static absl::StatusOr<std::shared_ptr<RuntimeState>> Create(
      RuntimeOptions options, const engine::BackendHooks& hooks = {});
  ~RuntimeState();

  /// Errors: FailedPrecondition in a child of the process that made the runtime.
  absl::Status CheckProcess() const { return engine::CheckProcess(owner_); }
  /// Waits for transfers in flight, names leaked leases and frees everything. The parts that tell
  /// late callers of the shutdown stay.
  void Shutdown();

  absl::StatusOr<std::vector<TensorId>> CreateTensors(std::span<const TensorSpec> specs);
  absl::StatusOr<TensorId> Adopt(const TensorSpec& spec, std::span<const std::byte> bytes);
  absl::Status Write(TensorId tensor, std::span<const std::byte> bytes, std::uint64_t offset);
  absl::Status Read(TensorId tensor, std::span<std::byte> bytes, std::uint64_t offset);
  absl::Status Free(TensorId tensor);
  absl::Status Discard(TensorId tensor, ByteRange range);
  /// Errors: NotFound.
  absl::StatusOr<std::shared_ptr<engine::TensorInfo>> FindTensor(TensorId tensor) const;
  absl::StatusOr<std::span<const std::byte>> AddressOf(TensorId tensor) const;
  Bytes PageBytes() const { return tiers_->PagesToBytes(1); }
  std::vector<std::vector<int>> DramNodes() const;

  absl::Status BeginIteration(std::string_view key);
  absl::Status EndIteration();
  std::shared_ptr<OpState> BeginOp(OpOptions options);
  /// `before`: leases to give back first, each held by nobody else.
  std::shared_ptr<TicketState> AcquireAll(const std::shared_ptr<OpState>& op,
                                          std::span<const Access> accesses,
                                          std::span<const std::shared_ptr<LeaseState>> before = {});
  absl::Status Prefetch(std::span<const Access> accesses, std::uint32_t ops_ahead);
  /// Draft of a request for the accesses. It is recorded for `op` unless that is null. Errors:
  /// InvalidArgument; those of TensorTable::Resolve.
  absl::StatusOr<engine::TicketDraft> DraftAccesses(std::span<const Access> accesses,
                                                    OpState* op) const;

  absl::StatusOr<std::shared_ptr<ReservationState>> Reserve(TierId tier, Bytes bytes);
  absl::Status SetBudget(TierId tier, Bytes bytes);
  absl::Status SetEmulatedRates(double in_bytes_per_second, double out_bytes_per_second);
  /// A new stream, or `adopted`, the user's own.
  absl::StatusOr<std::shared_ptr<StreamState>> MakeStream(std::optional<void*> adopted);
  HealthReport Health() const { return health_.Report(); }
  Stats GetStats() const;
  absl::StatusOr<Schedule> RecordedSchedule(std::string_view key) const;
  const engine::EventLog* event_log() const { return event_log_.get(); }
  const TraceSink& trace() const { return options_.trace; }

 private:
  explicit RuntimeState(RuntimeOptions options);

  absl::Status SetUp(const engine::BackendHooks& hooks);
  core::CoreOptions MakeCoreOptions() const;
  absl::Status StartPlanner();
  absl::StatusOr<std::shared_ptr<engine::Segment>> CreateSegment(std::span<const TensorSpec> specs);
  absl::StatusOr<core::TierIndex> LowestTier(std::span<const TensorSpec> specs) const;
  /// Maps the first content of a readable segment's view: its file, or zeros. Does nothing for
  /// another segment.
  absl::Status AddView(engine::Segment& segment);
  /// Tells a fallback once.
  void Announce(const FallbackEvent& event);
  /// Leases `range` piece by piece and calls `copy` for each span of a lease, in order.
  absl::Status Copy(TensorId id,
                    ByteRange range,
                    AccessMode mode,
                    const std::function<void(std::span<std::byte>)>& copy);
  engine::CoreSnapshot Snapshot() const;
  TierStats StatsOf(core::TierIndex tier, const core::TierCounters& counters) const;

  const base::OwnerProcess owner_;
  const RuntimeOptions options_;
  engine::Logger logger_;
  engine::HealthMonitor health_;
  engine::NameTable op_names_;
  engine::NameTable lanes_;
  engine::NameTable keys_;
  engine::ScheduleRecorder recorder_;
  engine::TensorTable table_;
  engine::LinkMeters meters_;
  const std::shared_ptr<engine::Mailbox> mailbox_;
  const std::shared_ptr<engine::WaitMeter> waits_;
  std::atomic<core::OpNumber> next_op_{1};
  std::atomic<core::TicketNumber> next_ticket_{1};

  std::unique_ptr<engine::Backends> backends_;
  const engine::TierSet* tiers_ =
      nullptr;  ///< tiers of the backends; not used once the table is closed
  std::unique_ptr<engine::SerialExecutor> mapper_;
  std::unique_ptr<engine::EventLog> event_log_;
  std::unique_ptr<engine::DataMover> mover_;
  std::unique_ptr<engine::BackgroundPlanner> planner_;  ///< null unless the policy follows plans
  std::unique_ptr<engine::CoreThread> core_thread_;
  std::unique_ptr<engine::TierBudgets> budgets_;

  engine::CopyLanes copy_lanes_;
  base::Mutex streams_mutex_;
  std::vector<std::weak_ptr<StreamState>> streams_ ABSL_GUARDED_BY(streams_mutex_);
  const std::shared_ptr<engine::StreamCount> stream_count_;
};

/// Access to the inside of a Runtime, for tests and tools.
class RuntimeAccess {
 public:
  static absl::StatusOr<std::unique_ptr<Runtime>> Create(RuntimeOptions options,
                                                         const engine::BackendHooks& hooks);
  static RuntimeState& StateOf(Runtime& runtime);
};

}  // namespace sluice::internal
