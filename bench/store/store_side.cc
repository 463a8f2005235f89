#include "bench/store/store_side.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/worker_pool.h"
#include "bench/store/steps.h"
#include "fmt/format.h"
#include "io/page_store_parts.h"

namespace sluice::bench {
namespace {

/// How many operations beyond those in the kernel. Few: the fewer buffers go round, the more of
/// them are still in a cache when the disk's next bytes are written there. Many: where requests end
/// several at a time, the kernel has too few to do while these are hashed.
enum class Hashing { kFew, kMany };

std::uint32_t OperationsOf(Hashing hashing, std::uint64_t page_bytes) {
  const bool many = hashing == Hashing::kMany;
  const std::uint64_t bytes = std::uint64_t{many ? 16u : 2u} << 20;
  const std::uint64_t pages_min = many ? 8 : 2;
  return static_cast<std::uint32_t>(std::max(pages_min, bytes / page_bytes));
}

/// Pages of the file for each operation that is outstanding, at least.
constexpr std::uint32_t kPagesPerOperation = 4;

class PageStoreSide final : public StoreSide {
 public:
  PageStoreSide(const Load& load, Pages pages) : load_(load), pages_(pages) {}

  absl::Status Start(std::shared_ptr<const io::SpillFiles> files);
  absl::StatusOr<Sample> Run() override { return Run(load_); }
  absl::Status ChangeMemory(Pages pages) override {
    pages_ = pages;
    if (store_ != nullptr) store_->UnregisterMemory(buffers_->memory());
    SLUICE_ASSIGN_OR_RETURN(
        buffers_, PageBuffers::Create(load_.outstanding(), load_.which.page_bytes, pages));
    if (store_ != nullptr) store_->RegisterMemory(buffers_->memory());
    return absl::OkStatus();
  }
  bool huge() const override { return buffers_->huge(); }
  std::uint32_t hashing() const override { return load_.hashing; }
  std::uint64_t registered_bytes() const override { return store_->stats().registered_bytes; }

 private:
  absl::StatusOr<Sample> Run(const Load& load);
  absl::Status SetHashing(Hashing hashing) {
    load_.hashing = OperationsOf(hashing, load_.which.page_bytes);
    return ChangeMemory(pages_);
  }
  absl::Status ChooseHashing();
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
  SLUICE_RETURN_IF_ERROR(SetHashing(Hashing::kFew));
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
  SLUICE_RETURN_IF_ERROR(Run(layout).status());
  return ChooseHashing();
}

absl::Status PageStoreSide::ChooseHashing() {
  const std::uint32_t most = load_.depth + OperationsOf(Hashing::kMany, load_.which.page_bytes);
  if (load_.pages() < kPagesPerOperation * most) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const Sample few, Run(load_));
  SLUICE_RETURN_IF_ERROR(SetHashing(Hashing::kMany));
  SLUICE_ASSIGN_OR_RETURN(const Sample many, Run(load_));
  const bool faster = many.GiBPerSecond() > kClearGain * few.GiBPerSecond();
  return faster ? absl::OkStatus() : SetHashing(Hashing::kFew);
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
