#include "runtime/sim/schedule/op_order.h"

#include <algorithm>
#include <map>

#include "fmt/format.h"

namespace sluice::sim {
namespace {

constexpr std::uint32_t kNobody = UINT32_MAX;
constexpr std::size_t kShownOps = 8;

/// Ops that must end before each op.
std::vector<std::vector<std::uint32_t>> AllWaits(std::span<const FileOp> ops,
                                                 std::span<const ForwardWait> forward) {
  std::vector<std::vector<std::uint32_t>> waits(ops.size());
  std::map<std::string_view, std::uint32_t> last_of_lane;
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    const auto [last, first] = last_of_lane.try_emplace(ops[i].lane, i);
    if (ops[i].after.has_value()) {
      waits[i] = *ops[i].after;
    } else if (!first) {
      waits[i] = {last->second};
    }
    last->second = i;
  }
  for (const ForwardWait& wait : forward) {
    const std::size_t target = FindOp(ops, wait.waits_for_id);
    if (target < ops.size()) waits[wait.op].push_back(static_cast<std::uint32_t>(target));
  }
  return waits;
}

/// Waiter of each op that `from` waits for, however far: one of these ops that waits for it.
std::vector<std::uint32_t> WaitersFrom(std::uint32_t from,
                                       const std::vector<std::vector<std::uint32_t>>& waits) {
  std::vector<std::uint32_t> waiter(waits.size(), kNobody);
  std::vector<std::uint32_t> open = {from};
  waiter[from] = from;
  while (!open.empty()) {
    const std::uint32_t op = open.back();
    open.pop_back();
    for (const std::uint32_t earlier : waits[op]) {
      if (waiter[earlier] != kNobody) continue;
      waiter[earlier] = op;
      open.push_back(earlier);
    }
  }
  return waiter;
}

/// "3 -> 5 -> 3": each waits for the next.
std::string DescribeCycle(std::span<const FileOp> ops,
                          std::uint32_t op,
                          const std::vector<std::uint32_t>& waiter) {
  std::vector<std::uint64_t> ids;
  for (std::uint32_t i = op;; i = waiter[i]) {
    ids.push_back(ops[i].id);
    if (waiter[i] == i) break;
  }
  std::string text = fmt::format("{}", ids.front());
  std::reverse(ids.begin(), ids.end());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i == kShownOps && ids.size() > kShownOps + 1) {
      return text + fmt::format(" -> ... -> {}", ids.back());
    }
    text += fmt::format(" -> {}", ids[i]);
  }
  return text;
}

}  // namespace

std::size_t FindOp(std::span<const FileOp> ops, std::uint64_t id) {
  const auto found =
      std::lower_bound(ops.begin(), ops.end(), id, [](const FileOp& op, std::uint64_t wanted) {
        return op.id < wanted;
      });
  if (found == ops.end() || found->id != id) return ops.size();
  return static_cast<std::size_t>(found - ops.begin());
}

std::string ExplainForwardWait(std::span<const FileOp> ops, std::span<const ForwardWait> waits) {
  const ForwardWait& wait = waits.front();
  const std::uint64_t id = ops[wait.op].id;
  const std::size_t target = FindOp(ops, wait.waits_for_id);
  if (target == ops.size()) {
    return fmt::format(
        "op {}: \"after\" names op {}, which does not exist; remove it or add the op before",
        id,
        wait.waits_for_id);
  }
  const std::vector<std::uint32_t> waiter =
      WaitersFrom(static_cast<std::uint32_t>(target), AllWaits(ops, waits));
  if (waiter[wait.op] == kNobody) {
    return fmt::format(
        "op {}: \"after\" names op {}, which stands behind it; list ops in the order in which they "
        "run",
        id,
        wait.waits_for_id);
  }
  return fmt::format(
      "op {}: \"after\" makes a cycle, in which each op waits for the next ({}); "
      "remove one of these waits",
      id,
      DescribeCycle(ops, wait.op, waiter));
}

}  // namespace sluice::sim
