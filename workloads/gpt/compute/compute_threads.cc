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
          count, {}, {.name = "sluice-compute", .priority = base::ThreadPriority::kPrompt}));
  return std::unique_ptr<ComputeThreads>(new ComputeThreads(count, std::move(join)));
}

void ComputeThreads::ForEach(std::size_t tasks, const std::function<void(std::size_t i)>& task) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&](std::size_t, std::size_t) {
    for (std::size_t i = next++; i < tasks; i = next++) task(i);
  };
  join_->ForEach(std::min(tasks, static_cast<std::size_t>(count_)), 1, take);
}

}  // namespace sluice::gpt
