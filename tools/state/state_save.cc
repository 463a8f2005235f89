#include "tools/state/state_save.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/optim/save/save_text.h"

namespace sluice::tools {

std::string StateFileIn(const std::string& directory) {
  return fmt::format("{}/{}", directory, optim::kStateFileName);
}

absl::StatusOr<std::unique_ptr<StateSave>> StateSave::Open(const std::string& directory) {
  auto save = std::unique_ptr<StateSave>(new StateSave());
  SLUICE_ASSIGN_OR_RETURN(save->file_, optim::StateFileReader::Open(directory));
  SLUICE_ASSIGN_OR_RETURN(const optim::SaveText text, optim::ParseSaveText(save->file_->text()));
  SLUICE_ASSIGN_OR_RETURN(save->description_, DescribeState(text));
  save->tensors_ = TensorsOf(save->description_);
  SLUICE_ASSIGN_OR_RETURN(save->saved_, optim::TensorsOfLayout(text.layout));
  std::vector<std::uint64_t> sizes;
  for (const StateTensor& tensor : save->tensors_) sizes.push_back(tensor.bytes());
  SLUICE_ASSIGN_OR_RETURN(save->records_,
                          optim::PlaceRecords(text.hashes, sizes, save->file_->records_end()));
  return save;
}

absl::Status StateSave::ReadTensor(std::size_t tensor, StatePieceFn visit) const {
  const optim::StateRecord& record = records_[tensor];
  SLUICE_RETURN_IF_ERROR(file_->Verify(record, saved_[tensor].block_bytes, tensors_[tensor].key));
  std::vector<std::byte> buffer(std::min<std::uint64_t>(record.bytes, kStatePieceBytes));
  for (std::uint64_t offset = 0; offset < record.bytes; offset += buffer.size()) {
    const std::uint64_t size = std::min<std::uint64_t>(record.bytes - offset, buffer.size());
    const std::span<std::byte> piece = std::span(buffer).first(size);
    SLUICE_RETURN_IF_ERROR(file_->Read(record.offset + offset, piece));
    SLUICE_RETURN_IF_ERROR(visit(offset, piece));
  }
  return absl::OkStatus();
}

}  // namespace sluice::tools
