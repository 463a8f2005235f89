#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/optim/save/save_text.h"
#include "runtime/optim/save/saved_tensors.h"
#include "runtime/optim/save/state_file.h"

namespace sluice::optim {

/// A save whose text has been read. REQUIRES: FindRecords comes before Verify.
struct OpenSave {
  std::unique_ptr<StateFileReader> file;
  SaveText text;
  std::vector<SavedTensor> tensors = {};
  std::vector<StateRecord> records = {};  ///< places of the tensors in the file
  std::vector<std::int64_t> steps = {};   ///< own steps of each parameter

  /// Errors: those of StateFileReader::Open and ParseSaveText.
  static absl::StatusOr<OpenSave> Open(const std::string& directory);
  /// Finds `tensors` and `records`. Errors: DataLoss.
  absl::Status FindRecords();
  /// Finds `steps`. Errors: DataLoss (steps of another number of parameters).
  absl::Status FindSteps(std::size_t parameters);
  /// Checks the tensors' checksums. Errors: those of StateFileReader::Verify.
  absl::Status Verify() const;
};

}  // namespace sluice::optim
