#include "runtime/engine/report/health_monitor.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/engine/data/sole_copies.h"

namespace sluice::engine {
namespace {

std::string_view TextOf(const absl::Status& status) { return base::ToStd(status.message()); }

}  // namespace

bool HealthMonitor::NoteFallback(const FallbackEvent& event) {
  base::MutexLock lock(mutex_);
  const auto is_same = [&event](const FallbackEvent& noted) {
    return std::tie(noted.what, noted.reason, noted.chosen) ==
           std::tie(event.what, event.reason, event.chosen);
  };
  if (std::any_of(fallbacks_.begin(), fallbacks_.end(), is_same)) return false;
  fallbacks_.push_back(event);
  reasons_.push_back(
      fmt::format("{} is not in use ({}); {} instead", event.what, event.reason, event.chosen));
  return true;
}

void HealthMonitor::NoteFenced(const TierFencedEvent& event) {
  base::MutexLock lock(mutex_);
  fenced_[event.tier] =
      fmt::format("{} takes no pages: {}", ToString(event.tier), TextOf(event.cause));
}

void HealthMonitor::NoteFenced(const DriveFencedEvent& event) {
  base::MutexLock lock(mutex_);
  reasons_.push_back(
      fmt::format("drive {} takes no pages any more: {}", event.directory, TextOf(event.cause)));
  if (!event.sole_copies.empty()) {
    reasons_.push_back(fmt::format(
        "drive {} failed with bytes that are {}", event.directory, Describe(event.sole_copies)));
  }
}

bool HealthMonitor::NoteTakesPages(TierId tier) {
  base::MutexLock lock(mutex_);
  return fenced_.erase(tier) > 0;
}

void HealthMonitor::NoteLostPage(const PageLostEvent& event) {
  base::MutexLock lock(mutex_);
  ++pages_lost_;
  last_lost_ = fmt::format(
      "{} bytes at offset {} of tensor '{}'", event.range.bytes, event.range.offset, event.tensor);
}

void HealthMonitor::NoteStalled(const TransferStalledEvent&) {
  base::MutexLock lock(mutex_);
  ++transfers_stalled_;
}

void HealthMonitor::NoteDead(std::string reason) {
  base::MutexLock lock(mutex_);
  dead_ = true;
  reasons_.push_back(std::move(reason));
}

void HealthMonitor::Watch(const device::Device* device) {
  base::MutexLock lock(mutex_);
  device_ = device;
}

HealthReport HealthMonitor::Report() const {
  base::MutexLock lock(mutex_);
  HealthReport report;
  report.reasons = reasons_;
  for (const auto& [tier, reason] : fenced_) report.reasons.push_back(reason);
  const absl::Status device = device_ == nullptr ? absl::OkStatus() : device_->Health();
  if (!device.ok()) report.reasons.emplace_back(TextOf(device));
  if (pages_lost_ > 0) {
    report.reasons.push_back(
        fmt::format("content was lost {} times, last {}", pages_lost_, last_lost_));
  }
  if (transfers_stalled_ > 0) {
    report.reasons.push_back(fmt::format("{} transfers passed their deadline", transfers_stalled_));
  }
  if (dead_) {
    report.state = HealthState::kDead;
  } else if (!report.reasons.empty()) {
    report.state = HealthState::kDegraded;
  }
  return report;
}

std::vector<FallbackEvent> HealthMonitor::fallbacks() const {
  base::MutexLock lock(mutex_);
  return fallbacks_;
}

}  // namespace sluice::engine
