#include "bench/device/plain_store.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "base/status.h"
#include "io/file/spill_directory.h"

namespace sluice::bench {
namespace {

/// Pages that a load needs: reads have most outstanding, see Steps.
std::uint64_t LeastPages(std::uint64_t page_bytes) {
  const Case reads{.direction = Direction::kRead, .page_bytes = page_bytes};
  return 2 * std::uint64_t{DepthOf(reads) + HashedPages(reads)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlainStore>> PlainStore::Create(const Options& options) {
  auto store = absl::WrapUnique(new PlainStore(options));
  const std::uint64_t unit = std::max(kSizeUnit, options.page_bytes);
  const std::uint64_t wanted =
      std::max(options.bytes, LeastPages(options.page_bytes) * options.page_bytes);
  store->file_bytes_ = (wanted + unit - 1) / unit * unit;
  SLUICE_ASSIGN_OR_RETURN(const io::SpillDirectory directory,
                          io::OpenSpillDirectory(options.directory));
  SLUICE_ASSIGN_OR_RETURN(
      io::SpillFiles files,
      io::SpillFiles::Create(directory, {.bytes = store->file_bytes_, .unit_bytes = unit}));
  store->files_ = std::make_shared<const io::SpillFiles>(std::move(files));
  return store;
}

absl::Status PlainStore::Begin(Direction direction, Pattern pattern) {
  const Case which{.direction = direction, .pattern = pattern, .page_bytes = options_.page_bytes};
  side_.reset();
  SLUICE_ASSIGN_OR_RETURN(side_,
                          StoreSide::Create(files_,
                                            {.which = which,
                                             .depth = DepthOf(which),
                                             .milliseconds = options_.milliseconds,
                                             .file_bytes = file_bytes_}));
  return absl::OkStatus();
}

absl::StatusOr<double> PlainStore::Rate() {
  SLUICE_ASSIGN_OR_RETURN(const Sample sample, side_->Run());
  return static_cast<double>(sample.bytes) / sample.seconds;
}

}  // namespace sluice::bench
