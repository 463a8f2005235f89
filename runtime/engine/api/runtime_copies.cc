#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/device/page_copy.h"
#include "runtime/engine/api/runtime_state.h"

namespace sluice::internal {
namespace {

/// Most bytes of one lease of Read and Write.
constexpr std::uint64_t kPieceBytes = std::uint64_t{16} << 20;

/// The part of `range` from `offset` on that ends at the next multiple of `piece` in the segment.
ByteRange PieceAt(const engine::TensorInfo& tensor,
                  ByteRange range,
                  std::uint64_t offset,
                  std::uint64_t piece) {
  const std::uint64_t until_cut = piece - (tensor.offset + offset) % piece;
  return {offset, std::min(until_cut, range.offset + range.bytes - offset)};
}

/// The slowest tier in memory that the tensor may be in.
core::TierIndex HostTierOf(const engine::TierSet& tiers, const engine::TensorInfo& tensor) {
  core::TierIndex tier = *tiers.LowestFor(tensor.spec.lowest);
  while (!tiers.is_leasable(tier)) --tier;  // the first tier always is
  return tier;
}

/// A lease that overwrites pages makes what their addresses show undefined before the copy.
absl::Status CheckSource(const engine::TensorInfo& tensor,
                         std::span<const std::byte> shown,
                         std::span<const std::byte> bytes,
                         std::uint64_t offset) {
  const auto from = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t to = reinterpret_cast<std::uintptr_t>(shown.data()) + offset;
  if (from >= to + bytes.size() || to >= from + bytes.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "the bytes for tensor '{}' are those that it shows at the same place, and a write "
      "makes them undefined before it copies them; write a copy of them",
      tensor.spec.name));
}

using CopyPiece = std::function<void(std::span<std::byte>)>;

/// One read or write of the caller: leases its range piece by piece and copies each span in order.
class PieceCopier {
 public:
  struct Parts {
    RuntimeState& runtime;
    const engine::TierSet& tiers;
    const engine::TierBudgets& budgets;
    const std::shared_ptr<OpState>& op;
    const CopyPiece& copy;
  };
  explicit PieceCopier(const Parts& parts) : parts_(parts) {}

  absl::Status Copy(const engine::TensorInfo& tensor, Access access) const {
    const core::TierIndex tier = HostTierOf(parts_.tiers, tensor);
    const std::uint64_t page_bytes = parts_.tiers.page_bytes();
    std::uint64_t piece = PieceBytes(tier);
    const ByteRange range = access.range;
    const std::uint64_t end = range.offset + range.bytes;
    access.tier = parts_.tiers.id(tier);
    access.contiguous = false;
    for (std::uint64_t at = range.offset; at < end;) {
      access.range = PieceAt(tensor, range, at, piece);
      const std::uint64_t after = at + access.range.bytes;
      std::optional<Access> next;
      if (access.mode == AccessMode::kRead && after < end) {
        next = access;
        next->range = PieceAt(tensor, range, after, piece);
      }
      const absl::Status copied = LeaseAndCopy(access, next);
      // Reservations and tensors that stay there may leave less than an eighth of the tier.
      if (absl::IsResourceExhausted(copied) && piece > page_bytes) {
        piece = std::max(page_bytes, piece / 2 / page_bytes * page_bytes);
        continue;
      }
      SLUICE_RETURN_IF_ERROR(copied);
      at = after;
    }
    return absl::OkStatus();
  }

 private:
  std::uint64_t PieceBytes(core::TierIndex tier) const {
    const std::uint64_t page_bytes = parts_.tiers.page_bytes();
    const std::uint64_t pages_max = std::max(1u, parts_.budgets.Of(tier) / 8);
    return page_bytes * std::clamp<std::uint64_t>(kPieceBytes / page_bytes, 1, pages_max);
  }

  absl::Status LeaseAndCopy(const Access& access, const std::optional<Access>& next) const {
    const auto ticket = parts_.runtime.AcquireAll(parts_.op, {&access, 1});
    if (next) SLUICE_RETURN_IF_ERROR(parts_.runtime.Prefetch({&*next, 1}, 0));
    SLUICE_ASSIGN_OR_RETURN(const auto leases, ticket->Take());
    for (const std::span<std::byte> span : leases.front()->facts().spans) parts_.copy(span);
    return absl::OkStatus();
  }

  const Parts parts_;
};

}  // namespace

absl::Status RuntimeState::Write(TensorId tensor,
                                 std::span<const std::byte> bytes,
                                 std::uint64_t offset) {
  SLUICE_ASSIGN_OR_RETURN(const auto target, FindTensor(tensor));
  if (target->spec.off_lease == OffLease::kReadable) {
    SLUICE_ASSIGN_OR_RETURN(const std::span<const std::byte> shown, AddressOf(tensor));
    SLUICE_RETURN_IF_ERROR(CheckSource(*target, shown, bytes, offset));
  }
  return Copy(tensor, {offset, bytes.size()}, AccessMode::kOverwrite, [&](std::span<std::byte> to) {
    device::CopyPage(to, bytes.first(to.size()));
    bytes = bytes.subspan(to.size());
  });
}

absl::Status RuntimeState::Read(TensorId tensor, std::span<std::byte> bytes, std::uint64_t offset) {
  return Copy(tensor, {offset, bytes.size()}, AccessMode::kRead, [&](std::span<std::byte> from) {
    device::CopyPage(bytes.first(from.size()), from);
    bytes = bytes.subspan(from.size());
  });
}

absl::Status RuntimeState::Copy(TensorId id,
                                ByteRange range,
                                AccessMode mode,
                                const CopyPiece& copy) {
  SLUICE_ASSIGN_OR_RETURN(const auto tensor, FindTensor(id));
  if (range.bytes == 0 && range.offset <= tensor->bytes) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(engine::CutRange(*tensor, range).status());
  const std::string_view name = mode == AccessMode::kRead ? "read" : "write";
  const std::uint32_t lane = copy_lanes_.Take();
  const auto op = BeginOp({.name = std::string(name), .lane = fmt::format("sluice.copy.{}", lane)});
  const PieceCopier copier(
      {.runtime = *this, .tiers = *tiers_, .budgets = *budgets_, .op = op, .copy = copy});
  absl::Status copied = copier.Copy(*tensor, {id, range, mode});
  op->End(OpState::Clock::now());
  copy_lanes_.GiveBack(lane);
  return copied;
}

}  // namespace sluice::internal
