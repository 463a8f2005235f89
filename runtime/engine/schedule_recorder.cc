#include "runtime/engine/schedule_recorder.h"

#include <utility>

#include "fmt/format.h"

namespace sluice::engine {

IterationRecord::IterationRecord(std::string key, std::uint64_t page_bytes) : key_(std::move(key)) {
  schedule_.key = key_;
  schedule_.page_bytes = page_bytes;
}

std::size_t IterationRecord::AddOp(const std::string& name, const std::string& lane) {
  base::MutexLock lock(mutex_);
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
  }
  return found->second;
}

void IterationRecord::AddAccesses(std::size_t op, std::span<const ResolvedAccess> accesses) {
  base::MutexLock lock(mutex_);
  for (const ResolvedAccess& access : accesses) {
    schedule_.ops[op].accesses.push_back(
        {TensorIndex(*access.tensor), access.range, access.mode, access.tier_id});
  }
}

void IterationRecord::AddDiscard(const TensorInfo& tensor, ByteRange range) {
  base::MutexLock lock(mutex_);
  const ScheduleAccess discard{TensorIndex(tensor), range, AccessMode::kOverwrite, TierId{}};
  auto& discards = schedule_.ops.empty() ? early_discards_ : schedule_.ops.back().discards;
  discards.push_back(discard);
}

void IterationRecord::SetSeconds(std::size_t op, double seconds) {
  base::MutexLock lock(mutex_);
  schedule_.ops[op].seconds = seconds;
}

void IterationRecord::Close() {
  base::MutexLock lock(mutex_);
  if (schedule_.ops.empty()) return;
  auto& last = schedule_.ops.back().discards;
  last.insert(last.end(), early_discards_.begin(), early_discards_.end());
  early_discards_.clear();
}

Schedule IterationRecord::Copy() const {
  base::MutexLock lock(mutex_);
  return schedule_;
}

void ScheduleRecorder::EndLocked() {
  current_->Close();
  complete_.insert_or_assign(current_->key(), std::move(current_));
  current_ = nullptr;
}

void ScheduleRecorder::BeginIteration(std::string_view key) {
  base::MutexLock lock(mutex_);
  if (current_ != nullptr) EndLocked();
  current_ = std::make_shared<IterationRecord>(std::string(key), page_bytes_);
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
  if (found == complete_.end()) {
    return absl::NotFoundError(fmt::format("no iteration of key '{}' has ended yet", key));
  }
  return found->second->Copy();
}

}  // namespace sluice::engine
