#include "runtime/optim/parameters/parameter_copies.h"

#include <algorithm>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/optim/kernels/parameter_copy.h"
#include "runtime/optim/step/pieces.h"
#include "runtime/optim/step/range_sweep.h"

namespace sluice::optim {
namespace {

constexpr std::size_t kElementBytes = 2;  ///< bytes of a copy's element
/// Pages of a parameter in an op. They fill one whole page of its copy, so that page is not read.
constexpr std::uint64_t kPages = sizeof(float) / kElementBytes;

std::vector<Access> AccessesOf(const ParameterEntry& entry, ElementRange range, AccessMode mode) {
  std::vector<Access> accesses;
  if (entry.memory.empty()) {
    accesses.push_back(InDram(entry.tensor, BytesOfElements(range, sizeof(float)), mode));
  }
  if (entry.copy->tensor != TensorId()) {
    accesses.push_back(
        InDram(entry.copy->tensor, BytesOfElements(range, kElementBytes), AccessMode::kOverwrite));
  }
  return accesses;
}

/// The parameter's elements in a range.
std::vector<std::span<std::byte>> ParameterOf(const ParameterEntry& entry,
                                              ElementRange range,
                                              const std::vector<Lease>& leases) {
  if (entry.memory.empty()) return leases.front().Spans();
  const ByteRange bytes = BytesOfElements(range, sizeof(float));
  return {entry.memory.subspan(bytes.offset, bytes.bytes)};
}

Pieces CopyOf(const ParameterEntry& entry, ElementRange range, const std::vector<Lease>& leases) {
  if (entry.copy->tensor != TensorId()) return Pieces(leases.back(), kElementBytes);
  const ByteRange bytes = BytesOfElements(range, kElementBytes);
  return Pieces(entry.copy->bytes.subspan(bytes.offset, bytes.bytes), kElementBytes);
}

}  // namespace

void CopyElements(const Pieces& parameters, const Pieces& copy, CopyType type, std::size_t count) {
  ParameterCopy args{.type = type};
  for (std::size_t i = 0; i < count; i += args.count) {
    args.count = std::min({parameters.Together(i), copy.Together(i), count - i});
    args.parameters = parameters.At(i);
    args.copy = copy.At(i);
    CopyParameters(args);
  }
}

absl::Status ParameterCopies::Refresh(std::span<const std::uint32_t> entries) const {
  for (const std::uint32_t index : entries) {
    const ParameterEntry& entry = table_.entries[index];
    if (!entry.copy) continue;
    SLUICE_RETURN_IF_ERROR(
        base::Annotate(Write(entry, {}), fmt::format("copy of '{}'", entry.name)));
  }
  return absl::OkStatus();
}

absl::Status ParameterCopies::Write(const ParameterEntry& entry, const FillFn& fill) const {
  const CopyType type = CopyTypeOf(entry.copy->type);
  const AccessMode mode = fill ? AccessMode::kOverwrite : AccessMode::kRead;
  const auto work = [&](ElementRange range, const std::vector<Lease>& leases) {
    std::uint64_t offset = range.begin * sizeof(float);
    const std::vector<std::span<std::byte>> parameter = ParameterOf(entry, range, leases);
    for (const std::span<std::byte> piece : parameter) {
      if (fill) SLUICE_RETURN_IF_ERROR(fill(offset, piece));
      offset += piece.size();
    }
    const Pieces from(parameter, sizeof(float));
    CopyElements(from, CopyOf(entry, range, leases), type, range.count);
    return absl::OkStatus();
  };
  return Run(runtime_,
             optimizer_.lane,
             {.name = "copy." + entry.name,
              .count = entry.count,
              .step = kPages * elements_,
              .accesses = [&](ElementRange range) { return AccessesOf(entry, range, mode); },
              .work = work});
}

}  // namespace sluice::optim
