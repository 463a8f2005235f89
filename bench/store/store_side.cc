#include "bench/store/store_side.h"

#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/worker_pool.h"
#include "bench/store/hashing_choice.h"
#include "bench/store/steps.h"
#include "fmt/format.h"
#include "io/page_store_parts.h"

namespace sluice::bench {
namespace {

class PageStoreSide final : public StoreSide {
 public:
  PageStoreSide(const Load& load, Pages pages) : load_(load), pages_(pages) {
    load_.hashing = FewHashing(load.which);
  }

  absl::Status Start(std::shared_ptr<const io::SpillFiles> files);
  absl::StatusOr<Sample> Run() override { return Run(load_); }
  absl::StatusOr<Sample> RunFor(std::uint32_t milliseconds) override {
    Load load = load_;
    load.milliseconds = milliseconds;
    return Run(load);
  }
  absl::Status ChangeMemory(Pages pages) override {
    pages_ = pages;
    if (store_ != nullptr) store_->UnregisterMemory(buffers_->memory());
    SLUICE_ASSIGN_OR_RETURN(
        buffers_, PageBuffers::Create(load_.outstanding(), load_.which.page_bytes, pages));
    if (store_ != nullptr) store_->RegisterMemory(buffers_->memory());
    return absl::OkStatus();
  }
  bool huge() const override { return buffers_->huge(); }
  absl::Status ChangeHashing(std::uint32_t hashing) override {
    load_.hashing = hashing;
    return ChangeMemory(pages_);
  }
  std::uint32_t hashing() const override { return load_.hashing; }
  std::uint64_t registered_bytes() const override { return store_->stats().registered_bytes; }

 private:
  absl::StatusOr<Sample> Run(const Load& load);
  void Issue(std::uint32_t place, Steps& steps);
  void Submit(std::uint32_t place, const Step& step, io::DoneFn done);

  Load load_;
  Pages pages_;
  std::unique_ptr<PageBuffers> buffers_;
  std::unique_ptr<base::WorkerPool> workers_;
  std::unique_ptr<io::PageStore> store_;
};

absl::Status PageStoreSide::Start(std::shared_ptr<const io::SpillFiles> files) {
  const bool threads = load_.which.engine == StoreEngine::kThreads;
  SLUICE_RETURN_IF_ERROR(ChangeMemory(pages_));
  SLUICE_ASSIGN_OR_RETURN(workers_, base::WorkerPool::Create({.threads = 1}));
  const io::PageStoreOptions options{.page_bytes = load_.which.page_bytes,
                                     .slots = load_.pages(),
                                     .queue_depth = load_.depth,
                                     .require_io_uring = !threads,
                                     .disable_io_uring = threads};
  SLUICE_ASSIGN_OR_RETURN(io::PageStoreParts parts,
                          io::MakePageStoreParts(options, std::move(files)));
  store_ = io::AssemblePageStore(options, std::move(parts), *workers_);
  store_->RegisterMemory(buffers_->memory());
  Load layout = Steps::OnePass(load_);
  layout.which.direction = Direction::kWrite;
  layout.which.pattern = Pattern::kSeq;
  return Run(layout).status();
}

absl::StatusOr<Sample> PageStoreSide::Run(const Load& load) {
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
void PageStoreSide::Issue(std::uint32_t place, Steps& steps) {
  const std::optional<Step> step = steps.Next();
  if (!step.has_value()) return;
  Submit(place, *step, [this, place, step = *step, &steps](const absl::Status& status) {
    steps.Finished(step, status);
    Issue(place, steps);
  });
}

void PageStoreSide::Submit(std::uint32_t place, const Step& step, io::DoneFn done) {
  const io::PageIdentity identity{.segment = 1, .page = step.page, .generation = 1};
  const std::span<std::byte> data = (*buffers_)[place];
  if (step.writes) {
    store_->Write(step.page, identity, data, std::move(done));
  } else {
    store_->Read(step.page, identity, data, std::move(done));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreSide>> StoreSide::Create(
    std::shared_ptr<const io::SpillFiles> files, const Load& load, Pages pages) {
  auto side = std::make_unique<PageStoreSide>(load, pages);
  SLUICE_RETURN_IF_ERROR(side->Start(std::move(files)));
  return std::unique_ptr<StoreSide>(std::move(side));
}

}  // namespace sluice::bench
