#include "runtime/core/plan/spread_reads.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace sluice::core {
namespace {

/// Pages of a step come in so many parts, each as soon as there are frames for it.
constexpr std::int64_t kParts = 8;

/// Whether the pages may leave after their only use.
bool ComesAndGoes(const PlanItem& item) { return item.uses.size() == 1 && item.lowest > 0; }

/// Whether steps follow each other, and all that they do is read what is in the last tier.
bool OnlyReads(const PlanInput& input) {
  if (input.links.size() != 1 || input.step_seconds.empty()) return false;
  for (std::size_t step = 0; step < input.step_ends.size(); ++step) {
    if (input.step_ends[step] > step + 1) return false;
  }
  return std::all_of(input.items.begin(), input.items.end(), [](const PlanItem& item) {
    return std::all_of(item.uses.begin(), item.uses.end(), [](const PlanUse& use) {
      return use.tier == 0 && use.mode == PageMode::kRead && !use.dies;
    });
  });
}

/// Pages of the steps, and frames for them.
class Shares {
 public:
  explicit Shares(const PlanInput& input)
      : frames_(input.frames[0]), pages_(input.step_seconds.size(), 0) {
    for (const PlanItem& item : input.items) {
      if (ComesAndGoes(item)) {
        pages_[item.uses.front().step] += item.pages;
      } else {
        frames_ -= item.pages;  // the item's pages stay
      }
    }
    for (const double seconds : input.step_seconds) {
      const double brought = std::round(seconds / std::max(input.links[0].in_s, 1e-12));
      const double pages = input.pages_under_way + brought;
      ahead_.push_back(static_cast<std::int64_t>(std::min<double>(pages, input.frames[0])));
    }
  }

  /// Chooses the fewest frames for what comes and goes; false if there are too few for that.
  bool Choose() {
    if (frames_ <= 0 || FramesFor(frames_) > frames_) return false;
    std::int64_t low = 1;
    std::int64_t high = frames_;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (FramesFor(middle) <= frames_) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    moving_ = low;
    for (std::size_t step = 0; step < pages_.size(); ++step) stay_.push_back(Stay(step, low));
    StayMore(frames_ - FramesFor(low));
    return true;
  }

  /// Pages of each step that stay.
  const std::vector<std::int64_t>& stay() const { return stay_; }
  /// Frames for the others.
  std::int64_t moving() const { return moving_; }

 private:
  std::int64_t Stay(std::size_t step, std::int64_t moving) const {
    const std::int64_t ahead = std::min(ahead_[step], moving / 2);
    return std::clamp<std::int64_t>(pages_[step] + ahead - moving, 0, pages_[step]);
  }
  /// Has further pages stay, of steps that are far from each other.
  void StayMore(std::int64_t pages) {
    const auto steps = static_cast<std::int64_t>(stay_.size());
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t more = (step + 1) * pages / steps - step * pages / steps;
      const auto at = static_cast<std::size_t>(step);
      stay_[at] = std::min(stay_[at] + more, pages_[at]);
    }
  }
  std::int64_t FramesFor(std::int64_t moving) const {
    std::int64_t frames = moving;
    for (std::size_t step = 0; step < pages_.size(); ++step) frames += Stay(step, moving);
    return frames;
  }

  std::int64_t frames_;
  std::int64_t moving_ = 0;
  std::vector<std::int64_t> pages_;
  std::vector<std::int64_t> stay_;
  std::vector<std::int64_t> ahead_;  ///< pages that may come while the step computes
};

/// Iterations of a plan that only reads, one after the other, without anything else.
class Reads {
 public:
  Reads(const PlanInput& input, const Plan& plan)
      : input_(input), plan_(plan), steps_(input.step_seconds.size()), fetches_(steps_) {
    for (std::size_t step = 0; step < steps_; ++step) {
      for (const PlannedFetch& fetch : plan.fetches[step]) {
        fetches_[(step + fetch.distance) % steps_].push_back(fetch);
      }
    }
    std::int64_t free = input.frames[0] + AwayAtBegin();
    for (const PlanItem& item : input.items) free -= item.pages;
    frames_.push_back({0, free});
  }

  /// Runs one iteration. Returns the time at its end.
  double Run() {
    for (std::size_t step = 0; step < steps_; ++step) {
      for (const PlannedFetch& fetch : fetches_[step]) {
        for (std::uint32_t i = 0; i < fetch.pages; ++i) Fetch();
      }
      end_ = std::max(end_, link_) + input_.step_seconds[step];
      std::int64_t pages = 0;
      for (const PlannedLeave& leave : plan_.leaves[step]) pages += leave.pages;
      frames_.push_back({end_, pages});
    }
    return end_;
  }

 private:
  struct Frames {
    double from = 0;
    std::int64_t pages = 0;
  };

  /// Pages that are not there when an iteration begins, as they come before they leave.
  std::int64_t AwayAtBegin() const {
    std::int64_t away = 0;
    absl::flat_hash_set<PageIndex> seen;
    for (std::size_t step = 0; step < steps_; ++step) {
      for (const PlannedFetch& fetch : fetches_[step]) {
        if (seen.insert(fetch.first_page).second) away += fetch.pages;
      }
      for (const PlannedLeave& leave : plan_.leaves[step]) seen.insert(leave.first_page);
    }
    return away;
  }

  void Fetch() {
    while (frames_.size() > 1 && frames_.front().pages <= 0) frames_.pop_front();
    --frames_.front().pages;
    link_ = std::max(link_, frames_.front().from) + input_.links[0].in_s;
  }

  const PlanInput& input_;
  const Plan& plan_;
  const std::size_t steps_;
  std::vector<std::vector<PlannedFetch>> fetches_;  ///< fetches by the step of their use
  std::deque<Frames> frames_;                       ///< frames that are free from a time on
  double link_ = 0;                                 ///< time from which the link is free
  double end_ = 0;                                  ///< time at which the last step is over
};

}  // namespace

double SecondsOfReads(const PlanInput& input, const Plan& plan) {
  Reads reads(input, plan);
  reads.Run();
  const double begin = reads.Run();
  return reads.Run() - begin;
}

std::optional<PlanInput> SpreadReads(const PlanInput& input) {
  std::int64_t all = 0;
  for (const PlanItem& item : input.items) all += item.pages;
  if (!OnlyReads(input) || all <= input.frames[0]) return std::nullopt;
  Shares shares(input);
  if (!shares.Choose()) return std::nullopt;
  PlanInput spread = input;
  spread.items.clear();
  spread.room_first = true;
  spread.frames[0] = static_cast<FrameIndex>(shares.moving());
  std::vector<std::int64_t> stay = shares.stay();
  const auto part = static_cast<std::uint32_t>(std::max<std::int64_t>(1, shares.moving() / kParts));
  for (const PlanItem& item : input.items) {
    if (!ComesAndGoes(item)) continue;
    std::int64_t& kept = stay[item.uses.front().step];
    const auto first = static_cast<std::uint32_t>(std::min<std::int64_t>(kept, item.pages));
    kept -= first;
    for (std::uint32_t at = first; at < item.pages; at += part) {
      spread.items.push_back({.first_page = item.first_page + at,
                              .pages = std::min(part, item.pages - at),
                              .uses = item.uses});
    }
  }
  return spread;
}

}  // namespace sluice::core
