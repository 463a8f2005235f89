#include "workloads/gpt/compute/compute_threads.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "workloads/gpt/model/status.h"

namespace sluice::gpt {

absl::StatusOr<std::unique_ptr<ComputeThreads>> ComputeThreads::Create(int count) {
  GPT_ASSIGN_OR_RETURN(
      std::unique_ptr<optim::ForkJoin> join,
      optim::ForkJoin::Create(
          count, {}, {.name = "sluice-compute", .priority = base::ThreadPriority::kUsual}));
  return std::unique_ptr<ComputeThreads>(new ComputeThreads(count, std::move(join)));
}

void ComputeThreads::ForEach(std::size_t tasks, const std::function<void(std::size_t i)>& task) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&](std::size_t, std::size_t) {
    for (std::size_t i = next++; i < tasks; i = next++) task(i);
  };
  join_->ForEach(std::min(tasks, static_cast<std::size_t>(count_)), 1, take);
}

void ComputeThreads::NoteFailure(absl::Status status) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = std::move(status);
  failed_ = true;
}

absl::Status ComputeThreads::failure() const {
  if (!failed_) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  return failure_;
}

void ComputeThreads::ForgetFailure() {
  const std::lock_guard lock(mutex_);
  failure_ = absl::OkStatus();
  failed_ = false;
}

}  // namespace sluice::gpt
