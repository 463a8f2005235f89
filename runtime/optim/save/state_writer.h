#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/new_file.h"
#include "runtime/optim/save/saved_tensors.h"

namespace sluice::optim {

/// Writes the file of a save (state_file.h) in parts, in any order, see base::NewFile.
/// Threads: externally synchronised.
class StateWriter {
 public:
  /// `calls`: for tests, see base::NewFileOptions. Errors: InvalidArgument, NotFound (the
  /// directory), those of open(2) and pwrite(2).
  static absl::StatusOr<std::unique_ptr<StateWriter>> Create(const std::string& directory,
                                                             std::vector<SavedTensor> tensors,
                                                             base::FileCalls* calls = nullptr);
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  /// Writes the bytes of a tensor from `offset` on, which lie in memory in pieces. REQUIRES: whole
  /// blocks of its checksum, but for the tensor's last one. Each block is written once. Errors:
  /// those of base::NewFile::Write.
  absl::Status Write(std::size_t tensor,
                     std::uint64_t offset,
                     std::span<const std::span<std::byte>> pieces);
  /// The checksum of each tensor, valid once the whole tensor has been written.
  const std::vector<std::uint64_t>& sums() const { return sums_; }
  /// Ends the file with `text` and gives it its name. Errors: those of base::NewFile::Commit.
  absl::Status Commit(const std::string& text);

 private:
  StateWriter(std::unique_ptr<base::NewFile> file, std::vector<SavedTensor> tensors);

  const std::unique_ptr<base::NewFile> file_;
  const std::vector<SavedTensor> tensors_;
  std::vector<std::uint64_t> offsets_;  ///< offset of each tensor
  std::uint64_t end_ = 0;               ///< end of the last tensor
  std::vector<std::uint64_t> sums_;
};

}  // namespace sluice::optim
