#include "bench/store/engine_loop.h"

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/timer.h"
#include "bench/store/page_buffers.h"
#include "bench/store/steps.h"
#include "fmt/format.h"
#include "io/transfer.h"

namespace sluice::bench {
namespace {

/// What the places of a run share.
struct EngineRun {
  const io::SpillFiles& files;
  const Load& load;
  io::IoEngine& engine;
  Steps steps;
  io::TransferCounters counters;
  base::Timer timer{"sluice-retry"};
};

/// One of the operations that are always outstanding.
class Place final : public io::Transfer {
 public:
  Place(EngineRun& run, std::span<std::byte> data)
      : Transfer(run.engine, run.counters, base::Backoff{}, run.timer), run_(run), data_(data) {}

  void Issue() {
    step_ = run_.steps.Next();
    if (!step_.has_value()) return;
    const auto place = run_.files.At(step_->page * run_.load.which.page_bytes);
    StartTransfer({.direction = step_->writes ? io::IoDirection::kWrite : io::IoDirection::kRead,
                   .file = place.file,
                   .offset = place.offset,
                   .data = data_.data(),
                   .bytes = data_.size()});
  }

 private:
  void OnTransferred(const io::TransferResult& result) override {
    run_.steps.Finished(*step_, StatusOf(result));
    Issue();
  }

  static absl::Status StatusOf(const io::TransferResult& result) {
    if (result.kind == io::TransferResult::Kind::kDone) return absl::OkStatus();
    return absl::InternalError(
        base::ToAbsl(fmt::format("a transfer failed: {}", base::ErrnoName(result.error_number))));
  }

  EngineRun& run_;
  const std::span<std::byte> data_;
  std::optional<Step> step_;
};

absl::StatusOr<std::unique_ptr<io::IoEngine>> MakeEngine(const io::SpillFiles& files,
                                                         const Load& load) {
  io::IoEngineOptions options{.queue_depth = load.depth};
  for (const io::IoFile& file : files.files()) options.files.push_back(file.fd);
  return load.which.engine == StoreEngine::kThreads ? io::MakeThreadEngine(options)
                                                    : io::MakeUringEngine(options);
}

}  // namespace

absl::StatusOr<Sample> RunEngineLoop(const io::SpillFiles& files, const Load& load) {
  SLUICE_ASSIGN_OR_RETURN(const auto buffers,
                          PageBuffers::Create(load.depth, load.which.page_bytes, Pages::kHuge));
  SLUICE_ASSIGN_OR_RETURN(auto engine, MakeEngine(files, load));
  engine->RegisterMemory(buffers->memory());
  const Stretch stretch;
  EngineRun run{.files = files, .load = load, .engine = *engine, .steps = Steps(load)};
  std::vector<std::unique_ptr<Place>> places;
  for (std::uint32_t i = 0; i < load.depth; ++i) {
    places.push_back(std::make_unique<Place>(run, (*buffers)[i]));
  }
  for (const auto& place : places) place->Issue();
  run.steps.Wait();
  // Joins its threads, which may still be on their way out of the places.
  engine.reset();
  SLUICE_RETURN_IF_ERROR(run.steps.status());
  return stretch.End(run.steps.bytes());
}

}  // namespace sluice::bench
