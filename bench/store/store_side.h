#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/store/load.h"
#include "bench/store/page_buffers.h"
#include "bench/store/sample.h"

namespace sluice::bench {

/// Our side: a page store with checksums on, one worker, and as many buffers as operations that are
/// always outstanding. Threads: externally synchronised.
class StoreSide {
 public:
  /// Makes the store in `directory` and writes every slot once. `load` says what Run does. Errors:
  /// those of PageStore::Create (io_uring, where the case asks for it, and O_DIRECT are required),
  /// and of Run.
  static absl::StatusOr<std::unique_ptr<StoreSide>> Create(const std::string& directory,
                                                           const Load& load,
                                                           Pages pages);
  virtual ~StoreSide() = default;

  /// Errors: Internal, once any operation failed; the message has its status.
  virtual absl::StatusOr<Sample> Run() = 0;
  /// Puts the buffers on other memory. Errors: ResourceExhausted.
  virtual absl::Status ChangeMemory(Pages pages) = 0;
  /// Whether all buffers lie on huge pages.
  virtual bool huge() const = 0;
};

}  // namespace sluice::bench
