#include <span>
#include <utility>

#include "base/status.h"
#include "runtime/optim/optimizer/errors.h"
#include "runtime/optim/optimizer/layout.h"
#include "runtime/optim/optimizer/optimizer_impl.h"
#include "runtime/optim/save/optimizer_saves.h"
#include "runtime/optim/save/part_saver.h"
#include "runtime/optim/save/state_file.h"
#include "runtime/optim/step/range_sweep.h"

namespace sluice::optim {
namespace {

absl::Status LoadTensor(Runtime& runtime,
                        const std::string& lane,
                        TensorId tensor,
                        const FillFn& fill) {
  SLUICE_ASSIGN_OR_RETURN(const std::string name, runtime.NameOfTensor(tensor));
  SLUICE_ASSIGN_OR_RETURN(const Bytes bytes, runtime.SizeOfTensor(tensor));
  const auto accesses = [&](ElementRange range) -> std::vector<Access> {
    return {InDram(tensor, {range.begin, range.count}, AccessMode::kOverwrite)};
  };
  const auto work = [&](ElementRange range, const std::vector<Lease>& leases) {
    std::uint64_t offset = range.begin;
    for (const std::span<std::byte> piece : leases[0].Spans()) {
      SLUICE_RETURN_IF_ERROR(fill(offset, piece));
      offset += piece.size();
    }
    return absl::OkStatus();
  };
  return Run(runtime,
             lane,
             {.name = "load." + name,
              .count = bytes.count(),
              .step = runtime.PageBytes().count(),
              .accesses = accesses,
              .work = work});
}

absl::Status CheckSameLayout(const std::string& saved,
                             const std::string& here,
                             const std::string& directory) {
  const std::string difference = LayoutDifference(saved, here);
  if (difference.empty()) return absl::OkStatus();
  return Invalid(
      "{} in {} is of another optimizer: {}; load into one of the same kind, state, seed "
      "and groups",
      kStateFileName,
      directory,
      difference);
}

}  // namespace

absl::StatusOr<OpenSave> OptimizerSaves::Open(const std::string& directory) {
  internal::SaveThread::Finish(std::move(thread_));
  SLUICE_RETURN_IF_ERROR(CheckSavedTensors(options_.runtime, options_.table.entries));
  SLUICE_ASSIGN_OR_RETURN(OpenSave save, OpenSave::Open(directory));
  SLUICE_RETURN_IF_ERROR(CheckSameLayout(save.text.layout, Layout(), directory));
  SLUICE_RETURN_IF_ERROR(save.FindRecords());
  if (save.text.rates.size() != options_.groups.size()) {
    return DamagedSave("it has not the rates of every group");
  }
  SLUICE_RETURN_IF_ERROR(save.FindSteps(options_.table.entries.size()));
  SLUICE_RETURN_IF_ERROR(save.Verify());
  return save;
}

absl::Status OptimizerSaves::Read(const OpenSave& save) const {
  std::size_t next = 0;
  for (const ParameterEntry& entry : options_.table.entries) {
    for (const TensorId tensor : SavedOf(entry)) {
      const StateRecord& record = save.records[next++];
      const auto fill = [&](std::uint64_t offset, std::span<std::byte> piece) {
        return save.file->Read(record.offset + offset, piece);
      };
      if (tensor == entry.tensor && entry.copy.has_value()) {
        SLUICE_RETURN_IF_ERROR(options_.copies.Write(entry, fill));
      } else if (tensor == TensorId()) {
        SLUICE_RETURN_IF_ERROR(fill(0, entry.memory));
      } else {
        SLUICE_RETURN_IF_ERROR(LoadTensor(options_.runtime, options_.optimizer.lane, tensor, fill));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice::optim

namespace sluice {

absl::Status OffloadedOptimizer::Impl::Load(const std::string& directory) {
  Settle();
  SLUICE_RETURN_IF_ERROR(current_.CheckReplaceable());
  SLUICE_ASSIGN_OR_RETURN(const optim::OpenSave save, saves_.Open(directory));
  current_.BeginLoad();
  groups_.DropStep();
  gradients_.Clear();
  SLUICE_RETURN_IF_ERROR(saves_.Read(save));
  const optim::SaveText& text = save.text;
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].rates = text.rates[i];
  for (std::size_t i = 0; i < table_.entries.size(); ++i) {
    table_.entries[i].steps_before = text.step - save.steps[i];
  }
  progress_.SetAll(text.step);
  current_.EndLoad(text.step);
  return absl::OkStatus();
}

}  // namespace sluice
