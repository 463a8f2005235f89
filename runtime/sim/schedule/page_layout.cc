#include "runtime/sim/schedule/page_layout.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "fmt/format.h"
#include "runtime/sim/files/quoted.h"
#include "runtime/sim/schedule/merge_accesses.h"
#include "runtime/sim/schedule/page_spaces.h"

namespace sluice::sim {
namespace {

/// "op 3 (f, line 12)"
template <typename Op>
std::string DescribeOp(const Op& op) {
  std::string more = op.name.empty() ? "" : Printable(op.name);
  if (op.line.number > 0) {
    more += fmt::format("{}line {}", more.empty() ? "" : ", ", op.line.number);
  }
  return more.empty() ? fmt::format("op {}", op.id) : fmt::format("op {} ({})", op.id, more);
}

/// Turns ops into requests, one op after the other.
class OpPager {
 public:
  OpPager(const FileSchedule& schedule, const PageSpaces& spaces, const LayoutOptions& options)
      : schedule_(schedule), spaces_(spaces), options_(options), marks_(spaces.pages()) {}

  absl::StatusOr<PagedOp> Page(std::uint32_t op);

 private:
  /// Effect of the op at hand on a page.
  struct Mark {
    std::uint32_t op = UINT32_MAX;
    std::uint32_t request = 0;
    bool reads = false;
    std::uint64_t written = 0;
  };

  absl::StatusOr<core::TierIndex> PlaceOf(const FileOp& op, TierId tier) const;
  absl::Status Add(std::uint32_t op, const FileAccess& access, bool writes, PagedOp* paged);
  void SetModes(PagedOp* paged) const;

  const FileSchedule& schedule_;
  const PageSpaces& spaces_;
  const LayoutOptions& options_;
  std::vector<Mark> marks_;
};

absl::StatusOr<core::TierIndex> OpPager::PlaceOf(const FileOp& op, TierId tier) const {
  const auto found = std::find(options_.tiers.begin(), options_.tiers.end(), tier.kind);
  if (tier.index != 0 || found == options_.tiers.end()) {
    return absl::InvalidArgumentError(
        fmt::format("{} needs tensors in {}, which is not among the tiers: add it to them",
                    DescribeOp(op),
                    tier.index == 0 ? std::string(ToString(tier.kind)) : ToString(tier)));
  }
  return static_cast<core::TierIndex>(found - options_.tiers.begin());
}

absl::Status OpPager::Add(std::uint32_t op, const FileAccess& access, bool writes, PagedOp* paged) {
  const FileOp& file_op = schedule_.ops[op];
  const auto exception = std::lower_bound(
      file_op.exceptions.begin(),
      file_op.exceptions.end(),
      access.tensor,
      [](const TierException& e, std::uint32_t tensor) { return e.tensor < tensor; });
  const bool excepted = exception != file_op.exceptions.end() && exception->tensor == access.tensor;
  const TierId tier = excepted ? exception->tier : file_op.tier;
  SLUICE_ASSIGN_OR_RETURN(const core::TierIndex place, PlaceOf(file_op, tier));
  const PageSpaces::Range range = spaces_.OfAccess(access);
  for (PageIndex page = range.first; page < range.last; ++page) {
    Mark& mark = marks_[page];
    if (mark.op != op) {
      mark = {.op = op, .request = static_cast<std::uint32_t>(paged->requests.size())};
      paged->requests.push_back({.page = page, .tier = place, .map = tier.kind == TierKind::kHbm});
    }
    core::TierIndex& at = paged->requests[mark.request].tier;
    at = std::min(at, place);
    mark.reads = mark.reads || !writes;
    if (writes) mark.written += spaces_.BytesIn(access, page);
  }
  return absl::OkStatus();
}

void OpPager::SetModes(PagedOp* paged) const {
  for (core::PageRequest& request : paged->requests) {
    const Mark& mark = marks_[request.page];
    if (mark.written == 0) continue;
    const bool covered = !mark.reads && mark.written == spaces_.BytesUsed(request.page);
    request.mode = covered ? core::PageMode::kOverwrite : core::PageMode::kWrite;
  }
}

absl::StatusOr<PagedOp> OpPager::Page(std::uint32_t op) {
  const FileOp& file_op = schedule_.ops[op];
  PagedOp paged{
      .id = file_op.id, .name = file_op.name, .line = file_op.line, .seconds = file_op.seconds};
  for (const bool writes : {false, true}) {
    const auto& accesses = writes ? file_op.writes : file_op.reads;
    for (const FileAccess& access : MergeAccesses(accesses)) {
      SLUICE_RETURN_IF_ERROR(Add(op, access, writes, &paged));
    }
  }
  SetModes(&paged);
  return paged;
}

/// Lanes by number, and what else each op waits for than the op before it in its lane.
void SetOrder(const FileSchedule& schedule, PageLayout* layout) {
  absl::flat_hash_map<std::string, std::uint32_t> lanes;
  for (std::uint32_t i = 0; i < schedule.ops.size(); ++i) {
    const FileOp& op = schedule.ops[i];
    const auto [found, fresh] =
        lanes.try_emplace(op.lane, static_cast<std::uint32_t>(layout->lanes.size()));
    if (fresh) layout->lanes.push_back(op.lane);
    layout->ops[i].lane = found->second;
    if (op.after.has_value()) layout->ops[i].after = *op.after;
  }
}

/// The ops that touch a page.
struct Uses {
  std::uint32_t first = UINT32_MAX;
  std::uint32_t last = 0;
  std::uint32_t count = 0;
  bool written = false;
  friend bool operator==(const Uses&, const Uses&) = default;
};

std::vector<Uses> UsesOf(const PageLayout& layout) {
  std::vector<Uses> uses(layout.pages);
  for (std::uint32_t i = 0; i < layout.ops.size(); ++i) {
    for (const core::PageRequest& request : layout.ops[i].requests) {
      Uses& of_page = uses[request.page];
      of_page.first = std::min(of_page.first, i);
      of_page.last = i;
      ++of_page.count;
      of_page.written = of_page.written || request.mode != core::PageMode::kRead;
    }
  }
  return uses;
}

/// Cuts the pages into runs; the run of each page.
std::vector<std::uint32_t> MakeRuns(const PageSpaces& spaces, PageLayout* layout) {
  const std::vector<Uses> uses = UsesOf(*layout);
  std::vector<std::uint32_t> run_of(layout->pages);
  for (PageIndex page = 0; page < layout->pages; ++page) {
    const PageSpaces::Facts& facts = spaces.FactsOf(page);
    const bool alike = page > 0 && facts == spaces.FactsOf(page - 1);
    const bool goes_on = alike && (facts.persistent ? uses[page].written == uses[page - 1].written
                                                    : uses[page] == uses[page - 1]);
    if (!goes_on) {
      layout->runs.push_back(
          {.first_page = page,
           .kind = facts.kind,
           .persistent = facts.persistent,
           .file_home = facts.file_home || (facts.persistent && !uses[page].written)});
    }
    ++layout->runs.back().pages;
    run_of[page] = static_cast<std::uint32_t>(layout->runs.size() - 1);
  }
  return run_of;
}

/// Tells each op which runs it touches, and each run how many ops do.
void LinkRuns(const std::vector<std::uint32_t>& run_of, PageLayout* layout) {
  for (PagedOp& op : layout->ops) {
    for (const core::PageRequest& request : op.requests) {
      const std::uint32_t run = run_of[request.page];
      if (!layout->runs[run].persistent) op.runs.push_back(run);
    }
    std::sort(op.runs.begin(), op.runs.end());
    op.runs.erase(std::unique(op.runs.begin(), op.runs.end()), op.runs.end());
    for (const std::uint32_t run : op.runs) ++layout->runs[run].ops;
  }
}

}  // namespace

absl::StatusOr<PageLayout> LayOut(const FileSchedule& schedule, const LayoutOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const PageSpaces spaces,
                          PageSpaces::Create(schedule, options.page_bytes, options.pages_max));
  PageLayout layout{.page_bytes = options.page_bytes, .pages = spaces.pages()};
  for (PageIndex page = 0; page < layout.pages; ++page) {
    layout.tensors.push_back(spaces.TensorOf(page));
  }
  OpPager pager(schedule, spaces, options);
  std::uint64_t requests = 0;
  for (std::uint32_t i = 0; i < schedule.ops.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(PagedOp op, pager.Page(i));
    requests += op.requests.size();
    if (requests > options.requests_max) {
      return absl::ResourceExhaustedError(fmt::format(
          "the ops touch more than {} pages; give a larger --page", options.requests_max));
    }
    layout.ops.push_back(std::move(op));
  }
  SetOrder(schedule, &layout);
  LinkRuns(MakeRuns(spaces, &layout), &layout);
  return layout;
}

std::string Describe(const PagedOp& op) { return DescribeOp(op); }

bool WorksIn(const PageLayout& layout, core::TierIndex tier) {
  const auto is_there = [&](const core::PageRequest& request) { return request.tier == tier; };
  return std::any_of(layout.ops.begin(), layout.ops.end(), [&](const PagedOp& op) {
    return std::any_of(op.requests.begin(), op.requests.end(), is_there);
  });
}

std::vector<OpTime> UnhinderedTimes(const PageLayout& layout) {
  std::vector<double> lane_end(layout.lanes.size(), 0);
  std::vector<OpTime> times(layout.ops.size());
  for (std::size_t i = 0; i < layout.ops.size(); ++i) {
    const PagedOp& op = layout.ops[i];
    times[i].begin_s = lane_end[op.lane];
    for (const std::uint32_t before : op.after) {
      times[i].begin_s = std::max(times[i].begin_s, times[before].end_s);
    }
    times[i].end_s = lane_end[op.lane] = times[i].begin_s + op.seconds;
  }
  return times;
}

double ComputeSeconds(const PageLayout& layout) {
  double end = 0;
  for (const OpTime& time : UnhinderedTimes(layout)) end = std::max(end, time.end_s);
  return end;
}

}  // namespace sluice::sim
