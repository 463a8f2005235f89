#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "runtime/device/cuda/cuda_context.h"
#include "runtime/device/cuda/cuda_events.h"
#include "runtime/device/device.h"

namespace sluice::device {

/// Copies of one direction, or fills, on a stream of their own. Some run at a time, each group
/// behind one event. They are done in the order in which they were added. Threads: one, with the
/// context current; PutBehind any.
class CudaCopies {
 public:
  enum class Direction { kIn, kOut };
  struct Job {
    CudaCopy copy;                     ///< addresses; those of a fill have no `from`
    std::optional<std::uint8_t> fill;  ///< value of each byte; none: the job is a copy
    StartedFn started = {};            ///< may be empty
    DoneFn done;
  };

  /// `share` and `events` outlive the copies. Errors: those of CudaHealth::Check.
  static absl::StatusOr<std::unique_ptr<CudaCopies>> Create(const CudaContextShare& share,
                                                            CudaEventPool& events,
                                                            Direction direction);
  ~CudaCopies();  ///< REQUIRES: idle
  CudaCopies(const CudaCopies&) = delete;
  CudaCopies& operator=(const CudaCopies&) = delete;

  void Add(Job job) { waiting_.push_back(std::move(job)); }
  /// Enqueues as many copies as the link has room for. Returns true if there were any.
  bool Start();
  /// Completes the copies that are done. Returns true if there were any.
  bool Poll();
  bool idle() const;
  /// Puts later work of `stream` behind the copies to these addresses that have started. `targets`
  /// is sorted. Errors: those of CudaHealth::Check. REQUIRES: the context is current.
  absl::Status PutBehind(CudaStream stream, std::span<const std::byte* const> targets);

 private:
  struct Group {
    CudaEvent event = nullptr;
    absl::Status error;  ///< error of a call after which part of the group may run
    std::vector<Job> jobs;
  };

  CudaCopies(const CudaContextShare& share,
             CudaEventPool& events,
             Direction direction,
             CudaStream stream)
      : share_(share), events_(events), direction_(direction), stream_(stream) {}

  bool HasRoom() const;
  static bool HasTarget(const Group& group, std::span<const std::byte* const> targets);
  Group TakeGroup();
  void Run(Group group);
  std::optional<CudaEvent> OldestEvent() const;
  Group TakeOldest();
  absl::Status Enqueue(const Group& group);
  absl::Status EnqueueOne(const Job& job);
  absl::Status EnqueueBatch(const std::vector<Job>& jobs);
  absl::Status AwaitStream();
  static void Finish(Group group, const absl::Status& status);

  const CudaContextShare& share_;
  CudaEventPool& events_;
  const Direction direction_;
  const CudaStream stream_;
  bool batches_ = true;  ///< true if the driver takes several copies in one call
  std::deque<Job> waiting_;
  /// Guards the groups that run, which the one thread alone changes. An event goes back to the pool
  /// after its group has left.
  mutable base::Mutex running_mutex_;
  std::deque<Group> running_ ABSL_GUARDED_BY(running_mutex_);
};

}  // namespace sluice::device
