#include "io/store/page_store_parts.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/engine/choose_engine.h"
#include "io/file/spill_directory.h"

namespace sluice::io {
namespace {

constexpr std::uint64_t kPageBytesMin = kIoAlignment;
constexpr std::uint64_t kPageBytesMax = std::uint64_t{64} << 20;
constexpr std::uint32_t kQueueDepthMax = 1024;
constexpr std::uint32_t kFilesMax = 64;
constexpr SlotIndex kSlotsPerSpare = 512;

absl::Status InvalidOption(std::string_view option, std::uint64_t value, std::string_view rule) {
  return absl::InvalidArgumentError(
      base::ToAbsl(fmt::format("page store: {} = {}, but it is {}", option, value, rule)));
}

absl::Status MakeEngine(const PageStoreOptions& options, PageStoreParts* parts) {
  IoEngineOptions engine_options{.queue_depth = options.queue_depth,
                                 .bytes_in_flight_max = options.bytes_in_flight_max,
                                 .merge_bytes_max = options.merge_bytes_max,
                                 .registered_bytes_max = options.registered_bytes_max,
                                 .cpus = options.cpus};
  for (const IoFile& file : parts->files->files()) engine_options.files.push_back(file.fd);
  SLUICE_ASSIGN_OR_RETURN(ChosenEngine chosen, ChooseEngine(engine_options, options.io_uring));
  parts->engine = std::move(chosen.engine);
  parts->engine_reason = std::move(chosen.reason);
  return absl::OkStatus();
}

}  // namespace

SlotIndex WithSpares(SlotIndex slots) {
  const SlotIndex spares = std::max<SlotIndex>(1, slots / kSlotsPerSpare);
  return slots + std::min(spares, std::numeric_limits<SlotIndex>::max() - slots);
}

SlotIndex PlacesOf(const PageStoreOptions& options) {
  return options.places > 0 ? options.places : WithSpares(options.slots);
}

absl::Status CheckPageStoreOptions(const PageStoreOptions& options) {
  const std::uint64_t page = options.page_bytes;
  if (!std::has_single_bit(page) || page < kPageBytesMin || page > kPageBytesMax) {
    return InvalidOption("page_bytes", page, "a power of two from 4096 to 67108864");
  }
  if (options.slots == 0) return InvalidOption("slots", 0, "at least 1");
  if (options.files > kFilesMax) return InvalidOption("files", options.files, "at most 64");
  if (options.queue_depth == 0 || options.queue_depth > kQueueDepthMax) {
    return InvalidOption("queue_depth", options.queue_depth, "from 1 to 1024");
  }
  if (options.operations_max == 0) return InvalidOption("operations_max", 0, "at least 1");
  if (options.backoff.attempts_max < 1) return InvalidOption("attempts_max", 0, "at least 1");
  if (options.backoff.first_pause.count() < 0) {
    return InvalidOption("first_pause", 0, "not negative");
  }
  return absl::OkStatus();
}

absl::StatusOr<PageStoreParts> MakePageStoreParts(const PageStoreOptions& options,
                                                  std::shared_ptr<const SpillFiles> files) {
  PageStoreParts parts{.files = std::move(files)};
  SLUICE_RETURN_IF_ERROR(MakeEngine(options, &parts));
  return parts;
}

absl::StatusOr<PageStoreParts> MakePageStoreParts(const PageStoreOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const OpenedDirectory directory,
                          OpenUnlessOpened(options.opened, options.directory));
  SLUICE_ASSIGN_OR_RETURN(SpillFiles files,
                          SpillFiles::Create(*directory,
                                             {.bytes = options.page_bytes * PlacesOf(options),
                                              .unit_bytes = options.page_bytes,
                                              .files = options.files,
                                              .keep_free_bytes = options.keep_free_bytes,
                                              .each = {.direct = options.direct,
                                                       .nocow = options.nocow,
                                                       .reserved_space = options.reserved_space,
                                                       .on_fill = options.on_fill,
                                                       .stop_fill = options.stop_fill}}));
  SLUICE_ASSIGN_OR_RETURN(
      PageStoreParts parts,
      MakePageStoreParts(options, std::make_shared<const SpillFiles>(std::move(files))));
  parts.directory = directory->path;
  return parts;
}

absl::StatusOr<std::unique_ptr<PageStore>> PageStore::Create(const PageStoreOptions& options,
                                                             base::WorkerPool& workers) {
  SLUICE_RETURN_IF_ERROR(CheckPageStoreOptions(options));
  SLUICE_ASSIGN_OR_RETURN(PageStoreParts parts, MakePageStoreParts(options));
  PageStoreOptions rest = options;
  rest.opened.reset();  // the files are made already
  return AssemblePageStore(rest, std::move(parts), workers);
}

}  // namespace sluice::io
