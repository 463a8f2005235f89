#include <algorithm>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer_impl.h"
#include "runtime/optim/parameter_copy.h"
#include "runtime/optim/pieces.h"
#include "runtime/optim/range_sweep.h"

namespace sluice {
namespace {

using optim::InDram;
using optim::ParameterEntry;
using optim::Pieces;

constexpr std::size_t kElementBytes = 2;  ///< of a copy

std::vector<Access> AccessesOf(const ParameterEntry& entry, ElementRange range) {
  std::vector<Access> accesses = {
      InDram(entry.tensor, optim::BytesOfElements(range, sizeof(float)), AccessMode::kRead)};
  if (entry.copy->tensor != TensorId()) {
    accesses.push_back(InDram(
        entry.copy->tensor, optim::BytesOfElements(range, kElementBytes), AccessMode::kOverwrite));
  }
  return accesses;
}

Pieces CopyOf(const ParameterEntry& entry, ElementRange range, const std::vector<Lease>& leases) {
  if (entry.copy->tensor != TensorId()) return Pieces(leases[1], kElementBytes);
  const ByteRange bytes = optim::BytesOfElements(range, kElementBytes);
  return Pieces(entry.copy->bytes.subspan(bytes.offset, bytes.bytes), kElementBytes);
}

void CopyRange(const Pieces& from, const Pieces& to, optim::ParameterCopy args, std::size_t count) {
  for (std::size_t i = 0; i < count; i += args.count) {
    args.count = std::min({from.Together(i), to.Together(i), count - i});
    args.parameters = from.At(i);
    args.copy = to.At(i);
    optim::CopyParameters(args);
  }
}

}  // namespace

absl::Status OffloadedOptimizer::Impl::RefreshCopies(GroupId id) {
  Settle();
  SLUICE_RETURN_IF_ERROR(CheckIdle());
  SLUICE_ASSIGN_OR_RETURN(const Group* group, FindGroup(id));
  return WriteCopies(*group);
}

absl::Status OffloadedOptimizer::Impl::WriteCopies(const Group& group) {
  for (const std::uint32_t index : group.entries) {
    const ParameterEntry& entry = entries_[index];
    if (!entry.copy) continue;
    const optim::ParameterCopy args{.type = optim::CopyTypeOf(entry.copy->type)};
    SLUICE_RETURN_IF_ERROR(base::Annotate(
        optim::Run(runtime_,
                   options_.lane,
                   {.name = "copy." + entry.name,
                    .count = entry.count,
                    .step = parts_.elements,
                    .accesses = [&](ElementRange range) { return AccessesOf(entry, range); },
                    .work =
                        [&](ElementRange range, const std::vector<Lease>& leases) {
                          CopyRange(Pieces(leases[0], sizeof(float)),
                                    CopyOf(entry, range, leases),
                                    args,
                                    range.count);
                          return absl::OkStatus();
                        }}),
        fmt::format("copy of '{}'", entry.name)));
  }
  return absl::OkStatus();
}

}  // namespace sluice
