#include "bench/store/store_side.h"

#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/store/page_store_parts.h"

namespace sluice::bench {

absl::Status StoreSide::Start(std::shared_ptr<const io::SpillFiles> files) {
  const bool threads = load_.which.engine == StoreEngine::kThreads;
  SLUICE_ASSIGN_OR_RETURN(buffers_,
                          PageBuffers::Create(load_.outstanding(), load_.which.page_bytes));
  SLUICE_ASSIGN_OR_RETURN(workers_, base::WorkerPool::Create({.threads = 1}));
  const io::PageStoreOptions options{.page_bytes = load_.which.page_bytes,
                                     .slots = load_.pages(),
                                     .places = load_.pages(),
                                     .queue_depth = load_.depth,
                                     .io_uring = threads ? Use::kOff : Use::kRequire};
  SLUICE_ASSIGN_OR_RETURN(io::PageStoreParts parts,
                          io::MakePageStoreParts(options, std::move(files)));
  store_ = io::AssemblePageStore(options, std::move(parts), *workers_);
  store_->RegisterMemory(buffers_->memory());
  Load layout = Steps::OnePass(load_);
  layout.which.direction = Direction::kWrite;
  layout.which.pattern = Pattern::kSeq;
  return RunLoad(layout).status();
}

absl::StatusOr<Sample> StoreSide::RunLoad(const Load& load) {
  const Stretch stretch;
  Steps steps(load);
  for (std::uint32_t place = 0; place < load.outstanding(); ++place) Issue(place, steps);
  steps.Wait();
  const absl::Status status = steps.status();
  if (status.ok()) return stretch.End(steps.bytes());
  return absl::InternalError(base::ToAbsl(fmt::format(
      "{}: the page store failed: {}", CaseName(load.which), base::ToStd(status.message()))));
}

/// `steps` lives until Next has answered nothing for every place.
void StoreSide::Issue(std::uint32_t place, Steps& steps) {
  const std::optional<Step> step = steps.Next();
  if (!step.has_value()) return;
  Submit(place, *step, [this, place, step = *step, &steps](const absl::Status& status) {
    steps.Finished(step, status);
    Issue(place, steps);
  });
}

void StoreSide::Submit(std::uint32_t place, const Step& step, io::DoneFn done) {
  const io::PageIdentity identity{.segment = 1, .page = step.page, .generation = 1};
  const std::span<std::byte> data = (*buffers_)[place];
  if (step.writes) {
    store_->Write(step.page, identity, data, std::move(done));
  } else {
    store_->Read(step.page, identity, data, std::move(done));
  }
}

absl::StatusOr<std::unique_ptr<StoreSide>> StoreSide::Create(
    std::shared_ptr<const io::SpillFiles> files, const Load& load) {
  Load ours = load;
  ours.hashing = HashedPages(load.which);
  auto side = std::unique_ptr<StoreSide>(new StoreSide(ours));
  SLUICE_RETURN_IF_ERROR(side->Start(std::move(files)));
  return side;
}

}  // namespace sluice::bench
