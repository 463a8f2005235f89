#include "tests/io/closed_loop.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::testing {
namespace {

io::DriveSetOptions SetOptions(const ClosedLoop::Load& load) {
  io::DriveSetOptions options;
  options.store = {.page_bytes = std::uint64_t{1} << 20, .slots = load.slots};
  options.on_slow = [](const io::SlowDrive&) {};
  for (std::size_t i = 0; i < load.drives; ++i) {
    options.directories.push_back("/drive" + std::to_string(i));
    options.rates.push_back(1e9);
  }
  return options;
}

}  // namespace

ClosedLoop::ClosedLoop(const Load& load)
    : load_(load),
      random_(load.seed),
      slow_(load.drives, {1, 1}),
      refuses_(load.drives),
      free_at_(load.drives, std::vector<Clock::time_point>(load.servers)) {
  ledger_.emplace(SetOptions(load));
  for (io::SlotIndex slot = 0; slot < kPages; ++slot) Start(slot, true);
}

double ClosedLoop::Run(int count) {
  const Clock::time_point start = now_;
  for (int i = 0; i < count; ++i) {
    const bool writes = load_.writes > 0 && uniform_(random_) < load_.writes;
    Start(NextPage(), writes);
  }
  return count / std::chrono::duration<double>(now_ - start).count();
}

void ClosedLoop::WriteAllAgain() {
  Drain();
  leaving_.clear();
  for (io::SlotIndex slot = 0; slot < kPages; ++slot) ledger_->Forget(slot);
  for (io::SlotIndex slot = 0; slot < kPages; ++slot) Start(slot, true);
  Drain();
}

void ClosedLoop::Drain() {
  while (!underway_.empty()) EndOne();
}

std::uint64_t ClosedLoop::rebalanced() const {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < load_.drives; ++i) sum += ledger_->StatsOf(i).rebalanced;
  return sum;
}

double ClosedLoop::ShareOf(std::uint32_t drive) {
  Drain();
  int pages = 0;
  for (io::SlotIndex slot = 0; slot < kPages; ++slot) {
    const absl::StatusOr<io::ReadAttempt> read = ledger_->BeginRead(slot, now_);
    EXPECT_THAT(read, IsOk());
    pages += read->place.drive == drive ? 1 : 0;
    // A read that fails for a reason that passes is not judged.
    ledger_->EndRead(*read, absl::UnavailableError("only asked where it is"), now_);
  }
  return pages / static_cast<double>(kPages);
}

io::SlotIndex ClosedLoop::NextPage() {
  for (;;) {
    const auto any = load_.sequential ? next_++ : static_cast<io::SlotIndex>(random_());
    if (!busy_.contains(any % used_)) return any % used_;
  }
}

void ClosedLoop::Start(io::SlotIndex slot, bool writes) {
  while (underway_.size() >= load_.depth) EndOne();
  busy_.insert(slot);
  Underway next;
  if (writes) {
    absl::StatusOr<io::WriteAttempt> write = ledger_->BeginWrite(slot, now_);
    ASSERT_THAT(write, IsOk());
    leaving_.erase(slot);
    next.write = *std::move(write);
  } else {
    absl::StatusOr<io::ReadAttempt> read = ledger_->BeginRead(slot, now_);
    ASSERT_THAT(read, IsOk());
    next.read = *read;
  }
  next.end = Serve(writes ? next.write->place.drive : next.read->place.drive, writes);
  underway_.push(next);
}

ClosedLoop::Clock::time_point ClosedLoop::Serve(std::uint32_t drive, bool writes) {
  const double slower = writes ? slow_[drive].second : slow_[drive].first;
  const std::chrono::duration<double> seconds(1e-3 * static_cast<double>(load_.servers) * slower *
                                              ServiceTime());
  auto& servers = free_at_[load_.one_disk ? 0 : drive];
  auto& first = *std::min_element(servers.begin(), servers.end());
  first = std::max(first, now_) + std::chrono::duration_cast<Clock::duration>(seconds);
  return first;
}

/// About 1 in the mean.
double ClosedLoop::ServiceTime() {
  if (load_.deviation > 0) return std::exp(load_.deviation * normal_(random_));
  return -std::log(1 - uniform_(random_));
}

void ClosedLoop::EndOne() {
  Underway first = underway_.top();
  underway_.pop();
  now_ = first.end;
  if (first.write.has_value()) return EndWrite(std::move(first));
  EndRead(*first.read);
}

void ClosedLoop::EndWrite(Underway write) {
  const bool refused = refuses_[write.write->place.drive];
  const absl::Status status = refused ? absl::InternalError("refused") : absl::OkStatus();
  if (ledger_->EndWrite(&*write.write, status, now_).again) {
    write.end = Serve(write.write->place.drive, true);
    underway_.push(std::move(write));
    return;
  }
  EXPECT_FALSE(refused) << "no other drive took it";
  busy_.erase(write.write->slot);
}

void ClosedLoop::EndRead(const io::ReadAttempt& read) {
  EXPECT_FALSE(ledger_->EndRead(read, absl::OkStatus(), now_).has_value());
  if (std::optional<io::SlowDrive> slow = ledger_->TakeSlow()) {
    leaving_.insert(slow->slots.begin(), slow->slots.end());
    slow_drives_.push_back(*std::move(slow));
  }
  busy_.erase(read.slot);
  if (!leaving_.contains(read.slot)) return;
  ++rewritten_;
  Start(read.slot, true);
}

}  // namespace sluice::testing
