#include "bench/store/steps.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>

#include "base/check.h"

namespace sluice::bench {
namespace {

/// Stands for one pass without a deadline.
constexpr std::uint32_t kNoDeadline = 0;

std::vector<std::uint32_t> MakeOrder(const Load& load) {
  std::vector<std::uint32_t> order(load.pages());
  std::iota(order.begin(), order.end(), 0U);
  if (load.which.pattern == Pattern::kSeq) return order;
  // The order differs from call to call, because drives and hosts learn, and is that of every run.
  static std::atomic<std::uint64_t> seed{1};
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed++));
  return order;
}

}  // namespace

Steps::Steps(const Load& load)
    : load_(load),
      deadline_(Clock::now() + std::chrono::milliseconds(load.milliseconds)),
      order_(MakeOrder(load)),
      busy_(load.pages()),
      places_(load.outstanding()) {
  SLUICE_CHECK(load.pages() >= 2 * load.outstanding(), "a page that is not in flight is found");
  // Two streams, as fio's: reads from the start and writes from the middle.
  if (load.which.direction == Direction::kMix) write_cursor_ = load.pages() / 2;
}

Load Steps::OnePass(Load load) {
  load.milliseconds = kNoDeadline;
  return load;
}

bool Steps::IsOver() const {
  if (!status_.ok()) return true;
  if (load_.milliseconds == kNoDeadline) return started_ >= load_.pages();
  return Clock::now() >= deadline_;
}

std::uint32_t Steps::TakePage(std::uint32_t& cursor) {
  for (;;) {
    const std::uint32_t page = order_[cursor++ % order_.size()];
    if (busy_[page]) continue;
    busy_[page] = true;
    return page;
  }
}

std::optional<Step> Steps::Next() {
  base::MutexLock lock(mutex_);
  if (IsOver()) {
    SLUICE_CHECK(places_ > 0, "a place ends once");
    if (--places_ == 0) changed_.NotifyAll();
    return std::nullopt;
  }
  const bool odd = started_++ % 2 == 1;
  const Direction direction = load_.which.direction;
  const bool writes = direction == Direction::kWrite || (direction == Direction::kMix && odd);
  return Step{.writes = writes, .page = TakePage(writes ? write_cursor_ : read_cursor_)};
}

void Steps::Finished(const Step& step, const absl::Status& status) {
  base::MutexLock lock(mutex_);
  busy_[step.page] = false;
  status_.Update(status);
  if (status.ok()) ++finished_;
}

void Steps::Fail(const absl::Status& status) {
  base::MutexLock lock(mutex_);
  status_.Update(status);
}

void Steps::Wait() {
  base::MutexLock lock(mutex_);
  while (places_ > 0) changed_.Wait(mutex_);
}

std::uint64_t Steps::bytes() {
  base::MutexLock lock(mutex_);
  return finished_ * load_.which.page_bytes;
}

absl::Status Steps::status() {
  base::MutexLock lock(mutex_);
  return status_;
}

}  // namespace sluice::bench
