#include "bench/device/leased_run.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "base/status.h"

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Number of leases asked for before the first one is waited for.
constexpr std::size_t kAhead = 4;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LeasedRun>> LeasedRun::Create(const RuntimeOptions& options,
                                                             std::uint64_t bytes,
                                                             std::uint64_t layer_bytes) {
  auto run = absl::WrapUnique(new LeasedRun());
  run->layer_bytes_ = layer_bytes;
  run->link_ = options.nvme_bytes.count() == 0 ? "hbm-dram" : "dram-nvme";
  SLUICE_ASSIGN_OR_RETURN(run->runtime_, Runtime::Create(options));
  const std::vector<std::byte> content(layer_bytes, std::byte{1});
  for (std::uint64_t made = 0; made + layer_bytes <= bytes; made += layer_bytes) {
    TensorSpec spec;
    spec.name = "layer" + std::to_string(run->tensors_.size());
    spec.shape = {static_cast<std::int64_t>(layer_bytes)};
    spec.dtype = DType::kU8;
    SLUICE_ASSIGN_OR_RETURN(const TensorId tensor, run->runtime_->CreateTensor(spec));
    SLUICE_RETURN_IF_ERROR(run->runtime_->Write(tensor, content));
    run->tensors_.push_back(tensor);
  }
  return run;
}

std::vector<std::size_t> LeasedRun::Order(bool in_order) {
  std::vector<std::size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!in_order) std::shuffle(order.begin(), order.end(), std::mt19937_64(seed_++));
  return order;
}

std::uint64_t LeasedRun::MovedBytes(AccessMode mode) const {
  const LinkStats link = runtime_->GetStats().links.at(link_);
  switch (mode) {
    case AccessMode::kRead:
      return link.in.bytes;
    case AccessMode::kOverwrite:
      return link.out.bytes;
    case AccessMode::kReadWrite:
      return link.in.bytes + link.out.bytes;
  }
  return 0;
}

absl::Status LeasedRun::LeaseAll(AccessMode mode, const std::vector<std::size_t>& order) {
  struct AskedOp {
    Op op;
    Ticket ticket;
  };
  std::deque<AskedOp> ahead;
  std::size_t asked = 0;
  while (asked < order.size() || !ahead.empty()) {
    while (asked < order.size() && ahead.size() < kAhead) {
      Op op = runtime_->BeginOp({.name = "layer", .lane = "lane" + std::to_string(asked % kAhead)});
      Ticket ticket =
          op.AcquireAll({{.tensor = tensors_[order[asked++]], .mode = mode, .tier = kHbm0}});
      ahead.push_back({std::move(op), std::move(ticket)});
    }
    // Take gives the leases, whose end releases them.
    SLUICE_RETURN_IF_ERROR(ahead.front().ticket.Take().status());
    ahead.pop_front();
  }
  return absl::OkStatus();
}

absl::StatusOr<Moved> LeasedRun::Pass(AccessMode mode, bool in_order) {
  const std::vector<std::size_t> order = Order(in_order);
  const std::uint64_t before = MovedBytes(mode);
  const Clock::time_point start = Clock::now();
  SLUICE_RETURN_IF_ERROR(LeaseAll(mode, order));
  const double seconds = SecondsSince(start);
  return Moved{.bytes = MovedBytes(mode) - before, .seconds = seconds};
}

absl::StatusOr<Moved> LeasedRun::PlannedPass() {
  const std::uint64_t before = MovedBytes(AccessMode::kRead);
  const Clock::time_point start = Clock::now();
  SLUICE_RETURN_IF_ERROR(runtime_->BeginIteration("pass"));
  for (const TensorId tensor : tensors_) {
    Op op = runtime_->BeginOp({.name = "layer"});
    SLUICE_RETURN_IF_ERROR(op.Acquire({.tensor = tensor, .tier = kHbm0}).status());
  }
  SLUICE_RETURN_IF_ERROR(runtime_->EndIteration());
  const double seconds = SecondsSince(start);
  return Moved{.bytes = MovedBytes(AccessMode::kRead) - before, .seconds = seconds};
}

absl::StatusOr<LeaseTime> LeasedRun::TimeLease(std::size_t tensor) {
  const std::uint64_t before = InPlace();
  Op op = runtime_->BeginOp({.name = "one"});
  const Clock::time_point start = Clock::now();
  SLUICE_RETURN_IF_ERROR(op.Acquire({.tensor = tensors_[tensor], .tier = kHbm0}).status());
  return LeaseTime{.seconds = SecondsSince(start), .in_place = InPlace() > before};
}

std::uint64_t LeasedRun::InPlace() const {
  return runtime_->GetStats().tiers.at("hbm").mappings.in_place;
}

}  // namespace sluice::bench
