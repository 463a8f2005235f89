#include "runtime/optim/save/state_writer.h"

#include <utility>

#include "base/status.h"
#include "runtime/optim/save/block_sum.h"
#include "runtime/optim/save/state_file.h"

namespace sluice::optim {

absl::StatusOr<std::unique_ptr<StateWriter>> StateWriter::Create(const std::string& directory,
                                                                 std::vector<SavedTensor> tensors,
                                                                 base::FileCalls* calls) {
  SLUICE_RETURN_IF_ERROR(CheckSaveDirectory(directory, "make it first"));
  SLUICE_ASSIGN_OR_RETURN(
      auto file, base::NewFile::Create(StateFilePath(directory), {.mode = 0600, .calls = calls}));
  SLUICE_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(kStateFileMark))));
  return std::unique_ptr<StateWriter>(new StateWriter(std::move(file), std::move(tensors)));
}

StateWriter::StateWriter(std::unique_ptr<base::NewFile> file, std::vector<SavedTensor> tensors)
    : file_(std::move(file)),
      tensors_(std::move(tensors)),
      end_(sizeof(kStateFileMark)),
      sums_(tensors_.size()) {
  for (const SavedTensor& tensor : tensors_) {
    offsets_.push_back(end_);
    end_ += tensor.bytes;
  }
}

absl::Status StateWriter::Write(std::size_t tensor,
                                std::uint64_t offset,
                                std::span<const std::span<std::byte>> pieces) {
  sums_[tensor] += SumOfBlocks(tensors_[tensor].block_bytes, offset, pieces);
  std::uint64_t at = offsets_[tensor] + offset;
  for (const std::span<std::byte> piece : pieces) {
    SLUICE_RETURN_IF_ERROR(file_->WriteAt(at, piece));
    at += piece.size();
  }
  return absl::OkStatus();
}

absl::Status StateWriter::Commit(const std::string& text) {
  const StateFileTrailer trailer = TrailerOf(end_, text);
  SLUICE_RETURN_IF_ERROR(file_->WriteAt(end_, std::as_bytes(std::span(text))));
  SLUICE_RETURN_IF_ERROR(file_->WriteAt(end_ + text.size(), std::as_bytes(std::span(&trailer, 1))));
  return file_->Commit();
}

}  // namespace sluice::optim
