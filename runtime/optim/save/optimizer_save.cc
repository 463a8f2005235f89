#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer/layout.h"
#include "runtime/optim/optimizer/optimizer_impl.h"
#include "runtime/optim/save/save_layout.h"
#include "runtime/optim/save/save_text.h"
#include "runtime/optim/save/state_file.h"
#include "runtime/optim/step/range_sweep.h"

namespace sluice {
namespace {

using optim::ParameterEntry;

/// A tensor that is saved.
struct Saved {
  TensorId tensor;
  const ParameterEntry* entry = nullptr;  ///< that it is the parameter of; none: a state, scales
  std::string name;
  std::uint64_t bytes = 0;
};

absl::StatusOr<std::vector<Saved>> SavedTensors(const Runtime& runtime,
                                                const std::deque<ParameterEntry>& entries) {
  std::vector<Saved> saved;
  for (const ParameterEntry& entry : entries) {
    std::vector<TensorId> tensors = {entry.tensor};
    tensors.insert(tensors.end(), entry.states.begin(), entry.states.end());
    tensors.insert(tensors.end(), entry.scales.begin(), entry.scales.end());
    for (const TensorId tensor : tensors) {
      SLUICE_ASSIGN_OR_RETURN(const std::string name, runtime.NameOfTensor(tensor));
      SLUICE_ASSIGN_OR_RETURN(const Bytes bytes, runtime.SizeOfTensor(tensor));
      const ParameterEntry* const parameter = tensor == entry.tensor ? &entry : nullptr;
      saved.push_back({tensor, parameter, name, bytes.count()});
    }
  }
  return saved;
}

using PieceFn = std::function<absl::Status(std::uint64_t offset, std::span<std::byte> piece)>;

/// Calls `visit` with the tensor's bytes, piece after piece.
absl::Status ForEachPiece(Runtime& runtime,
                          const std::string& lane,
                          const Saved& saved,
                          AccessMode mode,
                          const PieceFn& visit) {
  const auto accesses = [&](ElementRange bytes) -> std::vector<Access> {
    return {optim::InDram(saved.tensor, {bytes.begin, bytes.count}, mode)};
  };
  const auto work = [&](ElementRange bytes, const std::vector<Lease>& leases) {
    std::uint64_t offset = bytes.begin;
    for (const std::span<std::byte> piece : leases[0].Spans()) {
      SLUICE_RETURN_IF_ERROR(visit(offset, piece));
      offset += piece.size();
    }
    return absl::OkStatus();
  };
  return optim::Run(runtime,
                    lane,
                    {.name = (mode == AccessMode::kRead ? "save." : "load.") + saved.name,
                     .count = saved.bytes,
                     .step = runtime.PageBytes().count(),
                     .accesses = accesses,
                     .work = work});
}

}  // namespace

std::string OffloadedOptimizer::Impl::Layout() const {
  optim::SaveLayout layout{.kind = options_.kind, .state = options_.state, .seed = options_.seed};
  for (const Group& group : groups_) {
    optim::LayoutGroup& to = layout.groups.emplace_back();
    to.name = group.name;
    for (const std::uint32_t index : group.entries) {
      const ParameterEntry& entry = entries_[index];
      to.parameters.push_back({entry.name, entry.type, entry.count});
    }
  }
  return optim::WriteLayout(layout);
}

absl::Status OffloadedOptimizer::Impl::Save(const std::string& directory, std::string_view note) {
  Settle();
  SLUICE_RETURN_IF_ERROR(CheckIdle());
  for (const Group& group : groups_) {
    if (!group.accumulated) continue;
    return absl::FailedPreconditionError(base::ToAbsl(fmt::format(
        "group '{}' has gradients that are added up, which a save does not hold; save after a step",
        group.name)));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Saved> saved, SavedTensors(runtime_, entries_));
  SLUICE_ASSIGN_OR_RETURN(const auto file, optim::StateFileWriter::Create(directory));
  optim::SaveText text{.layout = Layout(), .step = step(), .note = std::string(note)};
  for (const Saved& tensor : saved) {
    file->BeginRecord();
    SLUICE_RETURN_IF_ERROR(ForEachPiece(
        runtime_,
        options_.lane,
        tensor,
        AccessMode::kRead,
        [&](std::uint64_t, std::span<std::byte> piece) { return file->Append(piece); }));
    text.hashes.push_back(file->EndRecord().hash);
  }
  for (const Group& group : groups_) text.rates.push_back(group.rates);
  text.steps.emplace();
  for (const ParameterEntry& entry : entries_) {
    text.steps->push_back(optim::OwnStep(entry, text.step));
  }
  return file->Commit(optim::WriteSaveText(text));
}

absl::StatusOr<OptimizerSave> OffloadedOptimizer::Impl::ReadSave(const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(const auto file, optim::StateFileReader::Open(directory));
  SLUICE_ASSIGN_OR_RETURN(optim::SaveText text, optim::ParseSaveText(file->text()));
  return OptimizerSave{.step = text.step, .note = std::move(text.note)};
}

absl::Status OffloadedOptimizer::Impl::Load(const std::string& directory) {
  Settle();
  if (absl::Status idle = CheckIdle(); !idle.ok() && !half_loaded_ && !CanReplaceStep())
    return idle;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Saved> saved, SavedTensors(runtime_, entries_));
  SLUICE_ASSIGN_OR_RETURN(const auto file, optim::StateFileReader::Open(directory));
  SLUICE_ASSIGN_OR_RETURN(const optim::SaveText text, optim::ParseSaveText(file->text()));
  const std::string difference = optim::LayoutDifference(text.layout, Layout());
  if (!difference.empty()) {
    return absl::InvalidArgumentError(
        base::ToAbsl(fmt::format("{} in {} is of another optimizer: {}; before Load make one of "
                                 "the same kind, state, seed and groups",
                                 optim::kStateFileName,
                                 directory,
                                 difference)));
  }
  std::vector<std::uint64_t> sizes;
  for (const Saved& tensor : saved) sizes.push_back(tensor.bytes);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<optim::StateRecord> records,
                          optim::PlaceRecords(text.hashes, sizes, file->records_end()));
  if (text.rates.size() != groups_.size()) {
    return optim::DamagedSave("it has not the rates of every group");
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> steps,
                          optim::StepsOf(text, entries_.size()));
  for (std::size_t i = 0; i < saved.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(file->Verify(records[i], saved[i].name));
  }
  BeginLoad();
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const FillFn fill = [&](std::uint64_t offset, std::span<std::byte> piece) {
      return file->Read(records[i].offset + offset, piece);
    };
    const bool copied = saved[i].entry != nullptr && saved[i].entry->copy.has_value();
    SLUICE_RETURN_IF_ERROR(
        copied ? WriteCopy(*saved[i].entry, fill)
               : ForEachPiece(runtime_, options_.lane, saved[i], AccessMode::kOverwrite, fill));
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].rates = text.rates[i];
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].steps_before = text.step - steps[i];
  }
  OnLoaded(text.step);
  return absl::OkStatus();
}

absl::Status OffloadedOptimizer::Impl::CheckLoaded() const {
  if (!half_loaded_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the last Load ended in the middle, so parameters and states are of different steps; Load "
      "again, this save or another one");
}

bool OffloadedOptimizer::Impl::CanReplaceStep() const {
  const base::MutexLock lock(mutex_);
  return failed_;
}

void OffloadedOptimizer::Impl::BeginLoad() {
  half_loaded_ = true;
  const base::MutexLock lock(mutex_);
  failed_ = over_ = false;
  state_ = nullptr;
  for (Group& group : groups_) group.ready = group.accumulated = group.sits_out = false;
}

void OffloadedOptimizer::Impl::OnLoaded(std::int64_t step) {
  progress_.SetAll(step);
  half_loaded_ = false;
  const base::MutexLock lock(mutex_);
  step_ = step;
}

}  // namespace sluice
