#include "runtime/engine/data/task_book.h"

#include "base/check.h"

namespace sluice::engine {

TaskBook::RunningTask TaskBook::End(core::TaskNumber number) {
  const auto found = tasks_.find(number);
  SLUICE_CHECK(found != tasks_.end(), "a task is reported once");
  const RunningTask task = found->second;
  tasks_.erase(found);
  return task;
}

TaskBook::Clock::time_point TaskBook::NextLook(Clock::time_point now) const {
  if (tasks_.empty() || limit_ <= Clock::duration::zero()) return Clock::time_point::max();
  return now + limit_ / 4;
}

std::vector<TaskBook::RunningTask> TaskBook::TakeStalled(Clock::time_point now) {
  std::vector<RunningTask> stalled;
  if (limit_ <= Clock::duration::zero()) return stalled;
  for (auto& [number, task] : tasks_) {
    if (task.reported || now - task.begun <= limit_) continue;
    task.reported = true;
    stalled.push_back(task);
  }
  return stalled;
}

}  // namespace sluice::engine
