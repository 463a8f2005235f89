#include "io/file/spill_files.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"
#include "io/file/wait_for_space.h"

namespace sluice::io {
namespace {

constexpr std::uint64_t kBytesPerFile = std::uint64_t{1} << 30;
constexpr std::uint64_t kFilesUsual = 4;

/// Receiver of a file's progress that reports the progress of all files. `made`: bytes made before
/// this file.
OnFill TellOfAll(const SpillFilesOptions& options, std::uint64_t made) {
  if (!options.each.on_fill) return {};
  return [tell = options.each.on_fill, made, bytes_all = options.bytes](FillProgress progress) {
    if (made > 0 && progress.filled == 0) return;  // the file before has told as much
    progress.filled += made;
    progress.bytes_all = bytes_all;
    tell(progress);
  };
}

}  // namespace

std::uint64_t LargestFileBytes(const SpillFilesOptions& options) {
  const std::uint64_t files =
      options.files > 0 ? options.files
                        : std::clamp<std::uint64_t>(options.bytes / kBytesPerFile, 1, kFilesUsual);
  const std::uint64_t units = options.bytes / options.unit_bytes;
  return (units + files - 1) / files * options.unit_bytes;
}

absl::StatusOr<SpillFiles> SpillFiles::Create(const SpillDirectory& directory,
                                              const SpillFilesOptions& options) {
  return WaitForSpace([&] { return CreateNow(directory, options); });
}

absl::StatusOr<SpillFiles> SpillFiles::CreateNow(const SpillDirectory& directory,
                                                 const SpillFilesOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckKeepsFree(directory, options.bytes, options.keep_free_bytes));
  SpillFiles files;
  files.file_bytes_ = LargestFileBytes(options);
  for (std::uint64_t made = 0; made < options.bytes; made += files.file_bytes_) {
    SpillFileOptions each = options.each;
    each.bytes = std::min(files.file_bytes_, options.bytes - made);
    each.bytes_to_come = options.bytes - made - each.bytes;
    each.on_fill = TellOfAll(options, made);
    auto file = SpillFile::Create(directory, each);
    if (!file.ok() && each.bytes < options.bytes) {
      return base::Annotate(file.status(), fmt::format("file {}", files.spill_files_.size() + 1));
    }
    if (!file.ok()) return std::move(file).status();
    files.io_files_.push_back((*file)->file());
    if (files.direct_reason_.empty()) files.direct_reason_ = (*file)->direct_reason();
    if (files.nocow_reason_.empty()) files.nocow_reason_ = (*file)->nocow_reason();
    if (files.reserved_space_reason_.empty()) {
      files.reserved_space_reason_ = (*file)->reserved_space_reason();
    }
    files.spill_files_.push_back(*std::move(file));
  }
  return files;
}

SpillFiles SpillFiles::WithoutFile(std::uint64_t bytes) {
  SpillFiles files;
  files.io_files_.push_back({.bytes = bytes});
  files.file_bytes_ = bytes;
  files.direct_reason_ = "no file";
  return files;
}

SpillFiles::FileOffset SpillFiles::At(std::uint64_t offset) const {
  const std::uint64_t file = offset / file_bytes_;
  SLUICE_CHECK(file < io_files_.size(), "a place is within the files");
  return {&io_files_[file], offset % file_bytes_};
}

}  // namespace sluice::io
