#include "runtime/optim/save/open_save.h"

#include <utility>

#include "base/status.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

absl::StatusOr<OpenSave> OpenSave::Open(const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(auto file, StateFileReader::Open(directory));
  SLUICE_ASSIGN_OR_RETURN(SaveText text, ParseSaveText(file->text()));
  return OpenSave{std::move(file), std::move(text)};
}

absl::Status OpenSave::FindRecords() {
  SLUICE_ASSIGN_OR_RETURN(tensors, TensorsOfLayout(text.layout));
  std::vector<std::uint64_t> sizes;
  for (const SavedTensor& tensor : tensors) sizes.push_back(tensor.bytes);
  SLUICE_ASSIGN_OR_RETURN(records, PlaceRecords(text.hashes, sizes, file->records_end()));
  return absl::OkStatus();
}

absl::Status OpenSave::FindSteps(std::size_t parameters) {
  SLUICE_ASSIGN_OR_RETURN(steps, StepsOf(text, parameters));
  return absl::OkStatus();
}

absl::Status OpenSave::Verify() const {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(file->Verify(records[i], tensors[i].block_bytes, tensors[i].name));
  }
  return absl::OkStatus();
}

}  // namespace sluice::optim

namespace sluice {

absl::StatusOr<OptimizerSave> OffloadedOptimizer::ReadSave(const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(optim::OpenSave save, optim::OpenSave::Open(directory));
  return OptimizerSave{.step = save.text.step, .note = std::move(save.text.note)};
}

absl::StatusOr<OptimizerSave> OffloadedOptimizer::VerifySave(const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(optim::OpenSave save, optim::OpenSave::Open(directory));
  SLUICE_RETURN_IF_ERROR(save.FindRecords());
  SLUICE_RETURN_IF_ERROR(save.Verify());
  return OptimizerSave{.step = save.text.step, .note = std::move(save.text.note)};
}

}  // namespace sluice
