#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/cuda/cuda_context.h"
#include "runtime/device/cuda/cuda_events.h"
#include "runtime/device/device.h"

namespace sluice::device {

/// Copies of one direction, or fills, on a stream of their own: some at a time, each group behind
/// one event. They are done in the order in which they were added. Threads: externally
/// synchronised, the context current.
class CudaCopies {
 public:
  enum class Direction { kIn, kOut };
  struct Job {
    CudaCopy copy;                     ///< addresses; those of a fill have no `from`
    std::optional<std::uint8_t> fill;  ///< value of each byte, where it is a fill
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
  /// Enqueues what the link has room for. True if that was something.
  bool Start();
  /// Completes what is done. True if that was something.
  bool Poll();
  bool idle() const { return waiting_.empty() && running_.empty(); }

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
  Group TakeGroup();
  absl::Status Enqueue(const Group& group);
  absl::Status EnqueueOne(const Job& job);
  absl::Status EnqueueBatch(const std::vector<Job>& jobs);
  void AwaitStream();
  static void Finish(Group group, const absl::Status& status);

  const CudaContextShare& share_;
  CudaEventPool& events_;
  const Direction direction_;
  const CudaStream stream_;
  bool batches_ = true;  ///< the driver takes several copies in one call
  std::deque<Job> waiting_;
  std::deque<Group> running_;
};

}  // namespace sluice::device
