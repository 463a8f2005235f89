#include "tools/train/state/save_room.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/optim/save/state_file.h"
#include "sluice/units.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::uint64_t kTextBytesOfSave = 4096;
/// Name, type, number of elements, steps, and the checksums of a parameter and its states.
constexpr std::uint64_t kTextBytesOfParameter = 320;
constexpr std::uint64_t kElementsOfScale = 256;

std::uint64_t StateBytes(std::uint64_t elements, StateType type) {
  switch (type) {
    case StateType::kFp32:
      return elements * 4;
    case StateType::kBf16:
      return elements * 2;
    case StateType::k8Bit:
      return elements + (elements + kElementsOfScale - 1) / kElementsOfScale * 4;
  }
  return 0;
}

std::uint64_t BytesOnDisk(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return 0;
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

/// Adds the saves that are there. Saves up to the one that the run goes on from stay until the run
/// has made another one, and then go. Later ones stay until the run gets there.
absl::Status AddPresent(const TrainFlags& flags, const ResumableSaves& resumable, SaveRoom* room) {
  if (flags.state_path.empty()) {
    room->present_bytes = BytesOnDisk(fmt::format("{}/{}", room->directory, optim::kStateFileName));
    return absl::OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<FoundSave> saves, ListSaves(room->directory));
  int present = 0;
  for (const FoundSave& save : saves) {
    if (save.step > resumable.step()) continue;
    ++present;
    room->present_bytes += BytesOnDisk(fmt::format("{}/{}", save.directory, optim::kStateFileName));
  }
  room->kept = std::max(room->kept, present);
  return absl::OkStatus();
}

}  // namespace

std::uint64_t SaveBytesMax(std::span<const TensorSpec> parameters, StateType states) {
  std::uint64_t bytes = kTextBytesOfSave + parameters.size() * kTextBytesOfParameter;
  for (const TensorSpec& parameter : parameters) {
    const std::uint64_t own = SizeOf(parameter).count();
    bytes += own + 2 * StateBytes(own / sizeof(float), states) + parameter.name.size();
  }
  return (bytes / kBlockBytes + 2) * kBlockBytes;
}

absl::Status CheckRoom(const SaveRoom& room) {
  const std::uint64_t all =
      room.save_bytes * static_cast<std::uint64_t>(room.kept + room.being_written);
  const std::uint64_t more = all - std::min(all, room.present_bytes);
  if (more <= room.free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(base::ToAbsl(fmt::format(
      "{} {}: saves take {} there, {} for each of {} kept and {} being written, of which {} are "
      "there; {} are free, beside the spill files; make room, or name a directory on another file "
      "system",
      room.flag,
      room.directory,
      ToString(Bytes(all)),
      ToString(Bytes(room.save_bytes)),
      room.kept,
      room.being_written,
      ToString(Bytes(std::min(all, room.present_bytes))),
      ToString(Bytes(room.free_bytes)))));
}

absl::StatusOr<SaveRoom> RoomOf(const TrainFlags& flags,
                                const ResumableSaves& resumable,
                                std::span<const TensorSpec> parameters) {
  const bool named = !flags.state_path.empty();
  const std::string& directory = named ? flags.state_path : flags.save_state_path;
  struct statvfs info {};
  if (statvfs(directory.c_str(), &info) != 0) {
    return base::StatusFromErrno(errno, "statvfs " + directory);
  }
  SaveRoom room{.flag = named ? "--state" : "--save-state",
                .directory = directory,
                .save_bytes = SaveBytesMax(parameters, flags.settings.train.states),
                .kept = named ? kSavesKept : 1,
                // A save on the way begins before an older one is removed for the one before it.
                .being_written = named && !flags.settings.save_every.none() ? 2 : 1};
  SLUICE_RETURN_IF_ERROR(AddPresent(flags, resumable, &room));
  room.free_bytes = std::uint64_t{info.f_bavail} * info.f_frsize;
  return room;
}

absl::Status CheckRoomForSaves(const TrainFlags& flags,
                               const ResumableSaves& resumable,
                               std::span<const TensorSpec> parameters) {
  if (flags.state_path.empty() && flags.save_state_path.empty()) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const SaveRoom room, RoomOf(flags, resumable, parameters));
  return CheckRoom(room);
}

}  // namespace sluice::tools
