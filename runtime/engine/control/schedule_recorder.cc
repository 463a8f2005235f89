#include "runtime/engine/control/schedule_recorder.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace sluice::engine {

IterationRecord::IterationRecord(std::string key,
                                 std::uint64_t page_bytes,
                                 std::uint64_t accesses_max)
    : key_(std::move(key)), accesses_max_(accesses_max) {
  schedule_.key = key_;
  schedule_.page_bytes = page_bytes;
}

/// Whether there is room for so many more; if not nothing is kept, now or later.
bool IterationRecord::HasRoom(std::uint64_t more) {
  size_ += more;
  if (given_up_ || size_ <= accesses_max_) return !given_up_;
  given_up_ = true;
  schedule_ = Schedule{};
  tensors_ = {};
  last_ops_ = {};
  early_discards_ = {};
  return false;
}

std::optional<std::uint64_t> IterationRecord::Size() const {
  base::MutexLock lock(mutex_);
  if (given_up_) return std::nullopt;
  return size_;
}

std::size_t IterationRecord::AddOp(const std::string& name, const std::string& lane) {
  base::MutexLock lock(mutex_);
  if (!HasRoom(1)) return 0;
  schedule_.ops.push_back(ScheduleOp{.name = name, .lane = lane});
  return schedule_.ops.size() - 1;
}

std::uint32_t IterationRecord::TensorIndex(const TensorInfo& tensor) {
  const auto next = static_cast<std::uint32_t>(schedule_.tensors.size());
  const auto [found, added] = tensors_.try_emplace(tensor.id.value, next);
  if (added) {
    schedule_.tensors.push_back(ScheduleTensor{.name = tensor.spec.name,
                                               .kind = tensor.spec.kind,
                                               .bytes = tensor.bytes,
                                               .segment = tensor.segment,
                                               .segment_offset = tensor.offset});
    last_ops_.emplace_back();
  }
  return found->second;
}

void IterationRecord::AddAccesses(std::size_t op, std::span<const ResolvedAccess> accesses) {
  base::MutexLock lock(mutex_);
  if (!HasRoom(accesses.size())) return;
  for (const ResolvedAccess& access : accesses) {
    const std::uint32_t tensor = TensorIndex(*access.tensor);
    schedule_.ops[op].accesses.push_back(
        {tensor, access.range, access.mode, access.tier_id, access.recompute_seconds});
    last_ops_[tensor] = std::max(op, last_ops_[tensor].value_or(0));
  }
}

void IterationRecord::AddDiscard(const TensorInfo& tensor, ByteRange range) {
  base::MutexLock lock(mutex_);
  if (!HasRoom(1)) return;
  const ScheduleAccess discard{TensorIndex(tensor), range, AccessMode::kOverwrite, TierId{}};
  if (last_ops_[discard.tensor].has_value()) return PlaceDiscard(discard);
  early_discards_.push_back(discard);
}

/// The last op stands for the users of a tensor that none of this iteration uses.
void IterationRecord::PlaceDiscard(const ScheduleAccess& discard) {
  const std::size_t last = schedule_.ops.size() - 1;
  schedule_.ops[last_ops_[discard.tensor].value_or(last)].discards.push_back(discard);
}

void IterationRecord::SetSeconds(std::size_t op, double seconds) {
  base::MutexLock lock(mutex_);
  if (!given_up_) schedule_.ops[op].seconds = seconds;
}

void IterationRecord::Close() {
  base::MutexLock lock(mutex_);
  if (schedule_.ops.empty()) return;
  for (const ScheduleAccess& discard : early_discards_) PlaceDiscard(discard);
  early_discards_.clear();
}

Schedule IterationRecord::Copy() const {
  base::MutexLock lock(mutex_);
  return schedule_;
}

void ScheduleRecorder::EndLocked() {
  current_->Close();
  complete_.erase(current_->key());
  if (current_->Size().has_value()) {
    const std::string& key = current_->key();
    complete_.emplace(key, Kept{std::move(current_), ++ended_});
  }
  current_ = nullptr;
  DropOthersLocked();
}

/// The one that has ended last stays, as it is not too long alone.
void ScheduleRecorder::DropOthersLocked() {
  while (complete_.size() > 1 &&
         (complete_.size() > limits_.schedules_max || SizeLocked() > limits_.accesses_max)) {
    complete_.erase(
        std::min_element(complete_.begin(), complete_.end(), [](const auto& a, const auto& b) {
          return a.second.ended < b.second.ended;
        }));
  }
}

std::uint64_t ScheduleRecorder::SizeLocked() const {
  std::uint64_t size = 0;
  for (const auto& [key, kept] : complete_) size += kept.record->Size().value_or(0);
  return size;
}

void ScheduleRecorder::BeginIteration(std::string_view key) {
  base::MutexLock lock(mutex_);
  if (current_ != nullptr) EndLocked();
  current_ = std::make_shared<IterationRecord>(std::string(key), page_bytes_, limits_.accesses_max);
}

bool ScheduleRecorder::EndIteration() {
  base::MutexLock lock(mutex_);
  if (current_ == nullptr) return false;
  EndLocked();
  return true;
}

OpRecord ScheduleRecorder::BeginOp(const std::string& name, const std::string& lane) {
  base::MutexLock lock(mutex_);
  if (current_ == nullptr) return {};
  return {current_, current_->AddOp(name, lane)};
}

void ScheduleRecorder::AddDiscard(const TensorInfo& tensor, ByteRange range) {
  base::MutexLock lock(mutex_);
  if (current_ != nullptr) current_->AddDiscard(tensor, range);
}

absl::StatusOr<Schedule> ScheduleRecorder::Get(std::string_view key) const {
  base::MutexLock lock(mutex_);
  const auto found = complete_.find(key);
  if (found == complete_.end() || !found->second.record->Size().has_value()) {
    return absl::NotFoundError(
        fmt::format("no schedule of key '{}' is kept: none of its iterations has ended yet, the "
                    "last was longer than recorded_accesses_max, or others have displaced it; "
                    "raise that or schedules_max",
                    key));
  }
  return found->second.record->Copy();
}

}  // namespace sluice::engine
