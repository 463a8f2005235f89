#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/worker_pool.h"
#include "bench/store/load.h"
#include "bench/store/sample.h"
#include "bench/store/steps.h"
#include "bench/store/system/page_buffers.h"
#include "io/file/spill_files.h"
#include "io/store/page_store.h"

namespace sluice::bench {

/// Our side: a page store with checksums on, one worker, and a buffer for each operation that is
/// outstanding. Threads: externally synchronised.
class StoreSide {
 public:
  /// Makes the store on `files`, which nobody else uses while it runs, and writes every slot once.
  /// Errors: those of MakePageStoreParts (io_uring is required where the case asks for it), and of
  /// Run.
  static absl::StatusOr<std::unique_ptr<StoreSide>> Create(
      std::shared_ptr<const io::SpillFiles> files, const Load& load);

  /// One stretch of the load, with as many pages being hashed as HashedPages says. Errors:
  /// Internal, once any operation failed; the message has its status.
  absl::StatusOr<Sample> Run() { return RunLoad(load_); }
  /// Whether all buffers lie on huge pages.
  bool huge() const { return buffers_->huge(); }

 private:
  explicit StoreSide(const Load& load) : load_(load) {}
  absl::Status Start(std::shared_ptr<const io::SpillFiles> files);
  absl::StatusOr<Sample> RunLoad(const Load& load);
  void Issue(std::uint32_t place, Steps& steps);
  void Submit(std::uint32_t place, const Step& step, io::DoneFn done);

  const Load load_;
  std::unique_ptr<PageBuffers> buffers_;
  std::unique_ptr<base::WorkerPool> workers_;
  std::unique_ptr<io::PageStore> store_;
};

}  // namespace sluice::bench
