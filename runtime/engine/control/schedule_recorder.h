#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "runtime/core/types.h"
#include "runtime/engine/api/tensor_table.h"
#include "sluice/schedule.h"

namespace sluice::engine {

/// One iteration, while it is recorded and afterwards. A discard stands at the last op that has
/// asked for the tensor. Other lanes, or an op that is asked for ahead, may have come further. An
/// iteration of more than `accesses_max` ops, accesses and discards is given up: nothing of it is
/// kept. Threads: any.
class IterationRecord {
 public:
  IterationRecord(std::string key, std::uint64_t page_bytes, std::uint64_t accesses_max);

  std::size_t AddOp(const std::string& name, const std::string& lane);
  void AddAccesses(std::size_t op, std::span<const ResolvedAccess> accesses);
  void AddDiscard(const TensorInfo& tensor, ByteRange range);
  void SetSeconds(std::size_t op, double seconds);
  const std::string& key() const { return key_; }
  /// Ends the record. A discard before a tensor's first use is placed behind its last use, as the
  /// iteration repeats.
  void Close();
  Schedule Copy() const;
  /// Number of ops, accesses and discards; none when the record was given up.
  std::optional<std::uint64_t> Size() const;

 private:
  bool HasRoom(std::uint64_t more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint32_t TensorIndex(const TensorInfo& tensor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PlaceDiscard(const ScheduleAccess& discard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string key_;
  const std::uint64_t accesses_max_;
  mutable base::Mutex mutex_;
  std::uint64_t size_ ABSL_GUARDED_BY(mutex_) = 0;
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  Schedule schedule_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, std::uint32_t> tensors_ ABSL_GUARDED_BY(mutex_);
  /// The last op that has asked for each tensor.
  std::vector<std::optional<std::size_t>> last_ops_ ABSL_GUARDED_BY(mutex_);
  std::vector<ScheduleAccess> early_discards_ ABSL_GUARDED_BY(mutex_);
};

/// An op's place in an iteration; empty outside of iterations.
class OpRecord {
 public:
  OpRecord() = default;
  OpRecord(std::shared_ptr<IterationRecord> iteration, std::size_t op)
      : iteration_(std::move(iteration)), op_(op) {}
  void AddAccesses(std::span<const ResolvedAccess> accesses) {
    if (iteration_ != nullptr) iteration_->AddAccesses(op_, accesses);
  }
  void SetSeconds(double seconds) {
    if (iteration_ != nullptr) iteration_->SetSeconds(op_, seconds);
  }

 private:
  std::shared_ptr<IterationRecord> iteration_;
  std::size_t op_ = 0;
};

/// Records every iteration as tensors and ops, and keeps the last complete one of each key. The
/// limits bound the keys and their accesses: keys that have ended last stay. Threads: any.
class ScheduleRecorder {
 public:
  explicit ScheduleRecorder(std::uint64_t page_bytes, const core::ScheduleLimits& limits = {})
      : page_bytes_(page_bytes), limits_(limits) {}

  void BeginIteration(std::string_view key);
  /// Ends the iteration. False: none had begun.
  bool EndIteration();
  OpRecord BeginOp(const std::string& name, const std::string& lane);
  void AddDiscard(const TensorInfo& tensor, ByteRange range);
  /// Errors: NotFound.
  absl::StatusOr<Schedule> Get(std::string_view key) const;

 private:
  struct Kept {
    std::shared_ptr<IterationRecord> record;
    std::uint64_t ended = 0;  ///< number of the end; a larger one is later
  };

  void EndLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOthersLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint64_t SizeLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::uint64_t page_bytes_;
  const core::ScheduleLimits limits_;
  mutable base::Mutex mutex_;
  std::shared_ptr<IterationRecord> current_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Kept, std::less<>> complete_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
