#include "tools/train/settings/memory_check.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/analysis/bounds/time_bound.h"
#include "runtime/engine/setup/option_limits.h"
#include "tools/train/files/corpus.h"
#include "workloads/gpt/training/footprint.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
/// A process with its libraries and their heap, without threads and text.
constexpr std::uint64_t kProgramBytes = 8 * kMebibyte;
/// Updates, saves, and the sampler of memory.
constexpr std::uint64_t kOtherThreads = 3;
/// Buffers of oneDNN's products on a thread, as measured with 8 and 16 threads, and a fifth more.
/// They are there for moments, and touched as far as a product is large.
constexpr std::uint64_t kProductBytes = 7 * kMebibyte;
/// A run in RAM takes its tensors from mappings of this size.
constexpr std::uint64_t kRamChunkBytes = 2 * kMebibyte;
/// Bytes that LargestBudgets leaves for changes between its look and the run's.
constexpr std::uint64_t kSlackBytes = 4 * kMebibyte;

/// Bytes of the files that are there; pipes tell no size.
std::uint64_t TextBytes(const TrainSettings& settings) {
  if (settings.texts.empty()) return RunNeeds().text_bytes;
  std::uint64_t bytes = 0;
  for (const std::string& file : settings.texts) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) continue;
    const std::uint64_t size = std::filesystem::file_size(file, error);
    if (!error) bytes += std::min(size, kTextBytesMax.count());
  }
  return std::min(bytes, kTextBytesMax.count());
}

/// A process that trains, without its tensors.
numa::MemorySum MemoryOfProcess(const RunNeeds& needs) {
  numa::MemorySum sum;
  sum.Add({"the program and its libraries", kProgramBytes});
  sum.Add({"the text", needs.text_bytes});
  engine::AddThreads(
      static_cast<std::uint64_t>(needs.compute_threads) + kOtherThreads, "of the run", &sum);
  AddProducts(needs.compute_threads, &sum);
  return sum;
}

/// Two tables of the least time from each op to each other: of one link, and of all so far.
std::uint64_t BoundBytes(std::uint64_t ops) {
  const std::uint64_t ends =
      std::min<std::uint64_t>(ops, analysis::TimeBoundOptions().window_ends_max);
  return 2 * ends * ends * sizeof(double);
}

numa::MemorySum MemoryOfFrames(const RunNeeds& needs, const engine::FrameCounts& frames) {
  numa::MemorySum sum = engine::MemoryOf(needs.runtime, frames);
  sum.Add(engine::MemoryOfJob(needs.job, needs.runtime));
  sum.Add({"finding the bound of a step", BoundBytes(needs.job.ops)});
  sum.Add(MemoryOfProcess(needs));
  const std::uint64_t in_ram = needs.tensor_bytes + kRamChunkBytes + MemoryOfProcess(needs).bytes();
  sum.Add({"the run in RAM",
           static_cast<std::uint64_t>(needs.runs_in_ram) * in_ram,
           numa::MemoryKind::kChild});
  return sum;
}

}  // namespace

void AddProducts(int threads, numa::MemorySum* sum) {
  sum->Add({fmt::format("matrix products of {} threads", threads),
            static_cast<std::uint64_t>(threads) * kProductBytes,
            numa::MemoryKind::kStacks});
}

RuntimeOptions OptionsOfNoJob() {
  RuntimeOptions options;
  options.page_bytes = engine::DefaultPageBytes(options);
  return options;
}

absl::StatusOr<RunNeeds> FindNeeds(const TrainFlags& flags) {
  const TrainSettings& settings = flags.settings;
  SLUICE_ASSIGN_OR_RETURN(
      const gpt::Footprint footprint,
      gpt::MeasureFootprint(settings.model, settings.train, settings.runtime.page_bytes));
  const Bytes tensors = footprint.tensors + footprint.padding;
  return RunNeeds{.runtime = settings.runtime,
                  .text_bytes = TextBytes(settings),
                  .tensor_bytes = tensors.count(),
                  .job = {.tensor_pages = tensors.count() / settings.runtime.page_bytes.count(),
                          .ops = static_cast<std::uint64_t>(footprint.ops_per_step),
                          .page_accesses = footprint.page_accesses_per_step},
                  .compute_threads = settings.train.compute_threads,
                  .runs_in_ram = flags.verify ? 1 : 0};
}

absl::StatusOr<numa::MemorySum> MemoryOf(const RunNeeds& needs) {
  SLUICE_ASSIGN_OR_RETURN(const engine::FrameCounts frames, engine::CountFrames(needs.runtime));
  return MemoryOfFrames(needs, frames);
}

absl::Status CheckMemory(const TrainFlags& flags) {
  SLUICE_ASSIGN_OR_RETURN(const RunNeeds needs, FindNeeds(flags));
  SLUICE_ASSIGN_OR_RETURN(const engine::FrameCounts frames, engine::CountFrames(needs.runtime));
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  SLUICE_RETURN_IF_ERROR(numa::CheckFits(MemoryOfFrames(needs, frames),
                                         limits,
                                         "the run",
                                         engine::WayToTakeLess(needs.runtime, frames)));
  return engine::CheckMachine(needs.runtime, frames);
}

Bytes LargestBudgets(const RunNeeds& needs, const numa::MemoryLimits& limits) {
  const std::uint64_t page = needs.runtime.page_bytes.count();
  engine::FrameCounts frames;
  frames.nvme = static_cast<core::FrameIndex>(std::min<std::uint64_t>(
      needs.runtime.nvme_bytes.count() / page, std::numeric_limits<core::FrameIndex>::max()));
  const auto fits = [&](std::uint64_t mebibytes) {
    // All budget counts as dram: a frame of hbm takes no other memory than its own.
    frames.dram = static_cast<core::FrameIndex>(mebibytes * kMebibyte / page);
    numa::MemorySum sum = MemoryOfFrames(needs, frames);
    sum.Add({"slack", kSlackBytes});
    return numa::CheckFits(sum, limits, "the run", "").ok();
  };
  std::uint64_t least = 0;
  std::uint64_t most = std::min(limits.available_bytes / kMebibyte,
                                engine::MappableFrames(limits.max_map_count) * page / kMebibyte) +
                       1;
  while (most - least > 1) {
    const std::uint64_t middle = least + (most - least) / 2;
    (fits(middle) ? least : most) = middle;
  }
  return Bytes(least * kMebibyte);
}

}  // namespace sluice::tools
