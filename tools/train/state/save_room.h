#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/optimizer.h"
#include "sluice/tensor.h"
#include "tools/train/state/resume.h"

namespace sluice::tools {

/// Most bytes that a save of these fp32 parameters and their two states takes. They include its
/// description, its directory and the rest of its last block.
std::uint64_t SaveBytesMax(std::span<const TensorSpec> parameters, StateType states);

/// Room for the saves of a run, as a sum.
struct SaveRoom {
  std::string flag;       ///< flag that names the directory
  std::string directory;  ///< directory that the saves are made in
  std::uint64_t save_bytes = 0;
  int kept = 0;                     ///< number of saves that stay
  int being_written = 1;            ///< number of saves that are written beside them
  std::uint64_t present_bytes = 0;  ///< bytes of saves that will be replaced or removed
  std::uint64_t free_bytes = 0;     ///< free space, with the spill files there already
};

/// Whether the saves have room. Errors: ResourceExhausted with the sum and the fix.
absl::Status CheckRoom(const SaveRoom& room);

/// The sum of a run with --state or --save-state, as its directory and file system are now. Errors:
/// those of statvfs(3) and ListSaves.
absl::StatusOr<SaveRoom> RoomOf(const TrainFlags& flags,
                                const ResumableSaves& resumable,
                                std::span<const TensorSpec> parameters);

/// Checks the file system of --state or --save-state, if one is given. Errors: those of CheckRoom
/// and statvfs(3).
absl::Status CheckRoomForSaves(const TrainFlags& flags,
                               const ResumableSaves& resumable,
                               std::span<const TensorSpec> parameters);

}  // namespace sluice::tools
