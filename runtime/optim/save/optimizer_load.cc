#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer/layout.h"
#include "runtime/optim/optimizer/optimizer_impl.h"
#include "runtime/optim/save/part_saver.h"
#include "runtime/optim/save/saved_tensors.h"
#include "runtime/optim/save/state_file.h"
#include "runtime/optim/step/range_sweep.h"

namespace sluice {
namespace {

using optim::FillFn;
using optim::SavedTensor;
using optim::StateRecord;

/// A save whose text has been read.
struct OpenSave {
  std::unique_ptr<optim::StateFileReader> file;
  optim::SaveText text;
  std::vector<SavedTensor> tensors = {};
  std::vector<StateRecord> records = {};

  absl::Status Verify() const {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      SLUICE_RETURN_IF_ERROR(file->Verify(records[i], tensors[i].block_bytes, tensors[i].name));
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<OpenSave> OpenText(const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(auto file, optim::StateFileReader::Open(directory));
  SLUICE_ASSIGN_OR_RETURN(optim::SaveText text, optim::ParseSaveText(file->text()));
  return OpenSave{std::move(file), std::move(text)};
}

absl::Status FindRecords(OpenSave* save) {
  SLUICE_ASSIGN_OR_RETURN(save->tensors, optim::TensorsOfLayout(save->text.layout));
  std::vector<std::uint64_t> sizes;
  for (const SavedTensor& tensor : save->tensors) sizes.push_back(tensor.bytes);
  SLUICE_ASSIGN_OR_RETURN(save->records,
                          optim::PlaceRecords(save->text.hashes, sizes, save->file->records_end()));
  return absl::OkStatus();
}

absl::Status LoadTensor(Runtime& runtime,
                        const std::string& lane,
                        TensorId tensor,
                        const FillFn& fill) {
  SLUICE_ASSIGN_OR_RETURN(const std::string name, runtime.NameOfTensor(tensor));
  SLUICE_ASSIGN_OR_RETURN(const Bytes bytes, runtime.SizeOfTensor(tensor));
  const auto accesses = [&](ElementRange range) -> std::vector<Access> {
    return {optim::InDram(tensor, {range.begin, range.count}, AccessMode::kOverwrite)};
  };
  const auto work = [&](ElementRange range, const std::vector<Lease>& leases) {
    std::uint64_t offset = range.begin;
    for (const std::span<std::byte> piece : leases[0].Spans()) {
      SLUICE_RETURN_IF_ERROR(fill(offset, piece));
      offset += piece.size();
    }
    return absl::OkStatus();
  };
  return optim::Run(runtime,
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
  const std::string difference = optim::LayoutDifference(saved, here);
  if (difference.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base::ToAbsl(fmt::format("{} in {} is of another optimizer: {}; before Load make one of "
                               "the same kind, state, seed and groups",
                               optim::kStateFileName,
                               directory,
                               difference)));
}

}  // namespace

absl::StatusOr<OptimizerSave> OffloadedOptimizer::ReadSave(const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(OpenSave save, OpenText(directory));
  return OptimizerSave{.step = save.text.step, .note = std::move(save.text.note)};
}

absl::StatusOr<OptimizerSave> OffloadedOptimizer::VerifySave(const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(OpenSave save, OpenText(directory));
  SLUICE_RETURN_IF_ERROR(FindRecords(&save));
  SLUICE_RETURN_IF_ERROR(save.Verify());
  return OptimizerSave{.step = save.text.step, .note = std::move(save.text.note)};
}

absl::Status OffloadedOptimizer::Impl::Load(const std::string& directory) {
  Settle();
  SLUICE_RETURN_IF_ERROR(current_.CheckReplaceable());
  internal::SaveThread::Finish(std::move(save_thread_));
  SLUICE_RETURN_IF_ERROR(optim::CheckSavedTensors(runtime_, table_.entries));
  SLUICE_ASSIGN_OR_RETURN(OpenSave save, OpenText(directory));
  const optim::SaveText& text = save.text;
  SLUICE_RETURN_IF_ERROR(CheckSameLayout(text.layout, Layout(), directory));
  SLUICE_RETURN_IF_ERROR(FindRecords(&save));
  if (text.rates.size() != groups_.size()) {
    return optim::DamagedSave("it has not the rates of every group");
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::int64_t> steps,
                          optim::StepsOf(text, table_.entries.size()));
  SLUICE_RETURN_IF_ERROR(save.Verify());
  current_.BeginLoad();
  groups_.DropStep();
  std::size_t next = 0;
  for (const optim::ParameterEntry& entry : table_.entries) {
    for (const TensorId tensor : optim::SavedOf(entry)) {
      const StateRecord& record = save.records[next++];
      const auto fill = [&](std::uint64_t offset, std::span<std::byte> piece) {
        return save.file->Read(record.offset + offset, piece);
      };
      if (tensor == entry.tensor && entry.copy.has_value()) {
        SLUICE_RETURN_IF_ERROR(copies_.Write(entry, fill));
      } else if (tensor == TensorId()) {
        SLUICE_RETURN_IF_ERROR(fill(0, entry.memory));
      } else {
        SLUICE_RETURN_IF_ERROR(LoadTensor(runtime_, options_.lane, tensor, fill));
      }
    }
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].rates = text.rates[i];
  for (std::size_t i = 0; i < table_.entries.size(); ++i) {
    table_.entries[i].steps_before = text.step - steps[i];
  }
  progress_.SetAll(text.step);
  current_.EndLoad(text.step);
  return absl::OkStatus();
}

}  // namespace sluice
