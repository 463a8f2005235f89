#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/engine/api/runtime_state.h"
#include "runtime/engine/api/tensor_spec_check.h"

namespace sluice::internal {
namespace {

/// Fallbacks of reads from a home that is only read.
std::vector<FallbackEvent> FallbacksOf(const engine::HomeFile& file,
                                       const engine::HomeEngine& reads) {
  if (!file.buffered_reason().empty()) {
    return {{"o_direct",
             file.buffered_reason(),
             "buffered reads of checkpoints, dropped from the page cache"}};
  }
  const std::string reason = file.direct() ? reads.reason() : std::string();
  if (reason.empty()) return {};
  return {{"io_uring", reason, "reads of checkpoints on threads"}};
}

/// The homes of the tensors that one is joined of; empty where it is not.
absl::StatusOr<std::vector<engine::HomePart>> JoinedHome(const TensorSpec& spec,
                                                         const engine::TensorTable& table,
                                                         const engine::TierSet& tiers) {
  std::vector<Access> accesses;
  for (const TensorId id : spec.joined) {
    accesses.push_back(
        {.tensor = id, .mode = AccessMode::kRead, .tier = kDram0, .contiguous = false});
  }
  std::vector<engine::HomePart> parts;
  if (accesses.empty()) return parts;
  SLUICE_ASSIGN_OR_RETURN(const auto found, table.Resolve(accesses, tiers));
  std::uint64_t bytes = 0;
  for (const engine::ResolvedAccess& each : found) {
    const engine::Segment::Parts& home = each.segment->parts();
    if (home.file == nullptr || !home.read_only) {
      return absl::InvalidArgumentError(
          fmt::format("tensor '{}' is joined of '{}', which has no file home that is only read",
                      spec.name,
                      each.tensor->spec.name));
    }
    parts.push_back({home.file, each.tensor->offset, each.tensor->bytes});
    bytes += each.tensor->bytes;
  }
  if (bytes == SizeOf(spec).count()) return parts;
  return absl::InvalidArgumentError(fmt::format(
      "tensor '{}' has {} bytes, and is joined of {}", spec.name, SizeOf(spec).count(), bytes));
}

}  // namespace

absl::StatusOr<core::TierIndex> RuntimeState::LowestTier(std::span<const TensorSpec> specs) const {
  const TensorSpec& spec = specs.front();
  // A tensor that is only read goes back to its file, never to nvme.
  const TierKind kind = engine::IsReadOnly(specs) ? TierKind::kDram : spec.lowest;
  if (const auto lowest = tiers_->LowestFor(kind)) return *lowest;
  return absl::InvalidArgumentError(
      fmt::format("tensor '{}' may reach down to {} only, and this "
                  "runtime has no such tier",
                  spec.name,
                  ToString(spec.lowest)));
}

absl::StatusOr<std::shared_ptr<engine::Segment>> RuntimeState::CreateSegment(
    std::span<const TensorSpec> specs) {
  SLUICE_RETURN_IF_ERROR(engine::CheckTensorSpecs(specs));
  SLUICE_ASSIGN_OR_RETURN(const core::TierIndex lowest, LowestTier(specs));
  engine::SegmentHome first;
  SLUICE_ASSIGN_OR_RETURN(first.joined, JoinedHome(specs.front(), table_, *tiers_));
  if (specs.front().file) {
    FileHome home = *specs.front().file;
    SLUICE_RETURN_IF_ERROR(engine::CheckSumBlocks(home, PageBytes()));
    home.offset = table_.FirstByteInFile(specs);
    const std::uint64_t end = specs.back().file->offset + SizeOf(specs.back()).count();
    engine::HomeEngine& reads = backends_->home_engine();
    SLUICE_ASSIGN_OR_RETURN(
        first.file, engine::HomeFile::Open(home, end - home.offset, options_.io.direct, reads));
    for (const FallbackEvent& event : FallbacksOf(*first.file, reads)) Announce(event);
  }
  std::optional<core::TierIndex> view;
  if (specs.front().off_lease == OffLease::kReadable) view = tiers_->IndexOf(kDram0);
  SLUICE_ASSIGN_OR_RETURN(auto segment, table_.Prepare(specs, lowest, std::move(first), view));
  if (absl::Status added = AddView(*segment); !added.ok()) {
    table_.Abandon(*segment);
    return added;
  }
  engine::CreateRequest request{.segment = segment};
  std::future<absl::Status> reply = request.reply.get_future();
  const absl::Status created = mailbox_->Push(std::move(request)) ? reply.get() : ShutDownError();
  if (!created.ok()) {
    table_.Abandon(*segment);
    return created;
  }
  table_.Publish(segment);
  return segment;
}

absl::StatusOr<std::vector<TensorId>> RuntimeState::CreateTensors(
    std::span<const TensorSpec> specs) {
  SLUICE_ASSIGN_OR_RETURN(const auto segment, CreateSegment(specs));
  std::vector<TensorId> ids;
  ids.reserve(specs.size());
  for (const auto& tensor : segment->parts().tensors) ids.push_back(tensor->id);
  return ids;
}

absl::StatusOr<TensorId> RuntimeState::Adopt(const TensorSpec& spec,
                                             std::span<const std::byte> bytes) {
  SLUICE_RETURN_IF_ERROR(engine::CheckTensorSpecs({&spec, 1}));
  if (SizeOf(spec).count() != bytes.size()) {
    return absl::InvalidArgumentError(fmt::format(
        "tensor '{}' has {} bytes, {} were given", spec.name, SizeOf(spec).count(), bytes.size()));
  }
  if (spec.file || !spec.joined.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("tensor '{}' is adopted and cannot have a file home", spec.name));
  }
  SLUICE_ASSIGN_OR_RETURN(const auto segment, CreateSegment({&spec, 1}));
  const TensorId id = segment->parts().tensors.front()->id;
  if (const absl::Status copied = Write(id, bytes, 0); !copied.ok()) {
    SLUICE_RETURN_IF_ERROR(Free(id));
    return copied;
  }
  return id;
}

absl::Status RuntimeState::Free(TensorId tensor) {
  SLUICE_ASSIGN_OR_RETURN(engine::TensorTable::Freed freed, table_.Free(tensor));
  recorder_.AddDiscard(*freed.tensor, {0, freed.tensor->bytes});
  if (freed.runs.empty()) return absl::OkStatus();
  return mailbox_->Push(engine::FreeRequest{freed.tensor->segment, std::move(freed.runs)})
             ? absl::OkStatus()
             : ShutDownError();
}

absl::Status RuntimeState::Discard(TensorId tensor, ByteRange range) {
  SLUICE_ASSIGN_OR_RETURN(engine::TensorTable::Discarded dead, table_.Discard(tensor, range));
  recorder_.AddDiscard(*dead.tensor, dead.range);
  if (dead.runs.empty()) return absl::OkStatus();
  return mailbox_->Push(engine::DiscardRequest{dead.tensor->segment, std::move(dead.runs)})
             ? absl::OkStatus()
             : ShutDownError();
}

absl::StatusOr<std::shared_ptr<engine::TensorInfo>> RuntimeState::FindTensor(
    TensorId tensor) const {
  std::shared_ptr<engine::TensorInfo> found = table_.Find(tensor);
  if (found != nullptr) return found;
  return absl::NotFoundError(fmt::format("there is no tensor with id {}", tensor.value));
}

}  // namespace sluice::internal
