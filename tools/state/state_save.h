#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/optim/save/saved_tensors.h"
#include "runtime/optim/save/state_file.h"
#include "tools/state/state_tensors.h"

namespace sluice::tools {

/// Receives the bytes of a tensor, piece after piece.
using StatePieceFn =
    absl::FunctionRef<absl::Status(std::uint64_t offset, std::span<const std::byte> piece)>;

/// Number of a tensor's bytes that are held at a time.
inline constexpr std::size_t kStatePieceBytes = std::size_t{1} << 20;

/// A save of an optimizer in `directory`, opened. Threads: externally synchronised.
class StateSave {
 public:
  /// Opens a save. Errors: those of optim::StateFileReader::Open, DataLoss (a damaged description).
  static absl::StatusOr<std::unique_ptr<StateSave>> Open(const std::string& directory);

  const StateDescription& description() const { return description_; }
  /// Tensors in the order of the save.
  const std::vector<StateTensor>& tensors() const { return tensors_; }
  /// Compares the checksum, then hands the bytes on. Errors: DataLoss that names the tensor; those
  /// of pread and of the visitor.
  absl::Status ReadTensor(std::size_t tensor, StatePieceFn visit) const;

 private:
  StateSave() = default;

  std::unique_ptr<optim::StateFileReader> file_;
  StateDescription description_;
  std::vector<StateTensor> tensors_;
  std::vector<optim::StateRecord> records_;  ///< one entry for each tensor
  std::vector<optim::SavedTensor> saved_;    ///< facts of each tensor
};

/// The file of the save in a directory, for messages.
std::string StateFileIn(const std::string& directory);

}  // namespace sluice::tools
