#include <algorithm>
#include <vector>

#include "base/status.h"
#include "runtime/optim/optimizer/optimizer_impl.h"
#include "runtime/optim/step/part_update.h"

namespace sluice {
namespace {

using optim::ParameterEntry;

/// Bytes of the pages that the range has a part of, about: where its tensor begins is not known.
std::uint64_t WholePages(const Access& access, std::uint64_t page_bytes) {
  return (access.range.bytes + page_bytes - 1) / page_bytes * page_bytes;
}

/// Accesses by which the update of elements reads its tensors, without the gradient.
std::vector<Access> ReadsOf(const OptimizerOptions& options,
                            const ParameterEntry& entry,
                            ElementRange elements) {
  const optim::KernelSpec spec{
      .optimizer = options.kind, .parameter = entry.type, .state = options.state};
  std::vector<Access> reads = AccessesOf(entry, spec, TensorId(), elements).accesses;
  std::erase_if(reads, [](const Access& access) { return access.mode == AccessMode::kOverwrite; });
  return reads;
}

}  // namespace

absl::StatusOr<Bytes> OffloadedOptimizer::Impl::Prefetch(std::span<const GroupId> groups,
                                                         Bytes at_most) {
  Settle();
  SLUICE_RETURN_IF_ERROR(current_.CheckIdle());
  std::vector<bool> wanted(groups_.size());
  for (const GroupId id : groups) {
    SLUICE_RETURN_IF_ERROR(groups_.Find(id).status());
    wanted[id.value] = true;
  }
  std::vector<Access> ahead;
  std::uint64_t bytes = 0;
  const auto add = [&](const optim::Part& part) {
    const ParameterEntry& entry = table_.entries[part.entry];
    const std::vector<Access> reads = ReadsOf(options_, entry, parts_.RangeOf(entry, part.index));
    std::uint64_t more = 0;
    for (const Access& read : reads) more += WholePages(read, runtime_.PageBytes().count());
    if (bytes + more > at_most.count()) return false;
    bytes += more;
    ahead.insert(ahead.end(), reads.begin(), reads.end());
    return true;
  };
  for (const std::uint32_t index : GroupOrder()) {
    if (!wanted[index]) continue;
    const std::vector<optim::Part> parts = PartsLeft(groups_[index]);
    if (!std::all_of(parts.begin(), parts.end(), add)) break;
  }
  SLUICE_RETURN_IF_ERROR(runtime_.Prefetch(ahead));
  return Bytes(bytes);
}

}  // namespace sluice
