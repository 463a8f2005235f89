// Two policies of one's own for a loop over more than fits. One knows the recorded schedule, and
// gives up the page with the furthest next use. The other knows nothing of it: it learns which page
// follows which, and fetches the next ones ahead.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice;

constexpr int kPages = 64, kRounds = 8;
constexpr std::size_t kAhead = 4;  // pages that are fetched before they are asked for
constexpr std::uint64_t kPageBytes = (64_KiB).count();

/// Furthest next use first. Of pages with the same one those go first that cost no write.
class Furthest : public Policy {
 public:
  void OnArrive(int, const PageFacts& facts) override { facts_[facts.page] = facts; }
  void OnChange(int, const PageFacts& facts) override { facts_[facts.page] = facts; }
  void OnUse(int, PageIndex) override {}
  void OnLeave(int, PageIndex page, Departure) override { facts_.erase(page); }
  std::optional<PageIndex> Victim(const VictimRequest&,
                                  const std::function<bool(PageIndex)>& evictable) override {
    const PageFacts* furthest = nullptr;
    for (const auto& [page, facts] : facts_) {
      if (!evictable(page) || (furthest != nullptr && !LeavesBefore(facts, *furthest))) continue;
      furthest = &facts;
    }
    return furthest == nullptr ? std::nullopt : std::optional(furthest->page);
  }

 private:
  static bool LeavesBefore(const PageFacts& a, const PageFacts& b) {
    if (a.next_use != b.next_use) return a.next_use > b.next_use;
    return a.free_to_leave && !b.free_to_leave;
  }

  std::map<PageIndex, PageFacts> facts_;  // dram alone: a Runtime without hbm has one tier
};

/// Least recently used first, and a fetch of what followed the used page the last time.
class Successors : public Policy {
 public:
  void OnArrive(int, const PageFacts& facts) override { order_.push_back(facts.page); }
  void OnUse(int, PageIndex page) override {
    OnLeave(0, page, Departure::kOther);
    order_.push_back(page);
    successor_[last_] = page;
    last_ = page;
    wanted_.clear();
    for (auto next = successor_.find(page);
         next != successor_.end() && next->second != page && wanted_.size() < kAhead;
         next = successor_.find(next->second)) {
      wanted_.push_back(next->second);
    }
  }
  void OnLeave(int, PageIndex page, Departure) override { std::erase(order_, page); }
  std::optional<PageIndex> Victim(const VictimRequest&,
                                  const std::function<bool(PageIndex)>& evictable) override {
    const auto oldest = std::ranges::find_if(order_, evictable);
    return oldest == order_.end() ? std::nullopt : std::optional(*oldest);
  }
  std::optional<FetchAdvice> NextFetch(int tier, Position now) override {
    if (tier != 0 || wanted_.empty()) return std::nullopt;
    const FetchAdvice advice{.page = wanted_.front(), .not_before = now};
    wanted_.pop_front();
    return advice;
  }

 private:
  std::vector<PageIndex> order_;  // the page used longest ago first
  std::map<PageIndex, PageIndex> successor_;
  std::deque<PageIndex> wanted_;
  PageIndex last_ = 0;
};

/// Reads every page of the tensor in order, in an op each. Returns the number of wrong pages.
int ReadAll(Runtime& runtime, TensorId tensor) {
  int wrong = 0;
  Check(runtime.BeginIteration("round"));
  for (std::uint64_t page = 0; page < kPages; ++page) {
    Op op = runtime.BeginOp({.name = "read"});
    const Lease lease =
        Check(op.Acquire({.tensor = tensor, .range = {page * kPageBytes, kPageBytes}}));
    const std::span<float> values = lease.As<float>();
    const auto expected = static_cast<float>(page);
    wrong += !std::ranges::all_of(values, [&](float value) { return value == expected; });
  }
  Check(runtime.EndIteration());
  return wrong;
}

struct Result {
  std::uint64_t pages_read = 0;
  std::uint64_t pages_ahead = 0;
};

Result Measure(const std::string& policy) {
  RuntimeOptions options{.page_bytes = 64_KiB, .dram_bytes = 2_MiB, .nvme_bytes = 8_MiB};
  options.prefetch_ops = 0;  // only the policy fetches ahead
  options.custom_policies["furthest"].create = [] { return std::make_unique<Furthest>(); };
  options.custom_policies["successors"] = {.create = [] { return std::make_unique<Successors>(); },
                                           .online = true};
  options.policy = policy;
  const auto runtime = Check(Runtime::Create(options));
  std::vector<float> values;
  for (int page = 0; page < kPages; ++page) {
    values.insert(values.end(), kPageBytes / sizeof(float), static_cast<float>(page));
  }
  const TensorId tensor = Check(
      runtime->CreateTensor({.name = "t", .shape = {static_cast<std::int64_t>(values.size())}}));
  Check(runtime->Write(tensor, std::as_bytes(std::span(values))));
  int wrong = 0;
  for (int round = 0; round < kRounds; ++round) wrong += ReadAll(*runtime, tensor);
  const Stats stats = runtime->GetStats();
  const Result result{.pages_read = stats.links.at("dram-nvme").in.copies,
                      .pages_ahead = stats.prefetch.issued};
  std::printf("%-10s %4ju pages read, %4ju of them ahead, %ju in time; waited %.3f s\n",
              policy.c_str(),
              std::uintmax_t{result.pages_read},
              std::uintmax_t{result.pages_ahead},
              std::uintmax_t{stats.prefetch.hit},
              stats.stall_seconds);
  if (wrong > 0) std::exit(1);
  return result;
}

}  // namespace

int main() {
  const Result lru = Measure("lru"), furthest = Measure("furthest"), ahead = Measure("successors");
  const bool fewer = furthest.pages_read < lru.pages_read * 3 / 4;
  return fewer && lru.pages_ahead == 0 && ahead.pages_ahead > 0 ? 0 : 1;
}
