#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "bench/store/load.h"
#include "bench/store/page_buffers.h"
#include "bench/store/sample.h"
#include "io/spill_files.h"

namespace sluice::bench {

/// Our side: a page store with checksums on, one worker, and as many buffers as operations that are
/// always outstanding. Threads: externally synchronised.
class StoreSide {
 public:
  /// Makes the store on `files`, which nobody else uses while it runs, and writes every slot once.
  /// `load` says what Run does, but for `hashing`, which is FewHashing at first. Errors: those of
  /// MakePageStoreParts (io_uring is required where the case asks for it), and of Run.
  static absl::StatusOr<std::unique_ptr<StoreSide>> Create(
      std::shared_ptr<const io::SpillFiles> files, const Load& load, Pages pages);
  virtual ~StoreSide() = default;

  /// As long as the load says. Errors: Internal, once any operation failed; the message has its
  /// status.
  virtual absl::StatusOr<Sample> Run() = 0;
  /// Run, but for `milliseconds`.
  virtual absl::StatusOr<Sample> RunFor(std::uint32_t milliseconds) = 0;
  /// Puts the buffers on other memory. Errors: ResourceExhausted.
  virtual absl::Status ChangeMemory(Pages pages) = 0;
  /// Whether all buffers lie on huge pages.
  virtual bool huge() const = 0;
  /// Sets Load::hashing. Errors: ResourceExhausted.
  virtual absl::Status ChangeHashing(std::uint32_t hashing) = 0;
  virtual std::uint32_t hashing() const = 0;
  /// Of the buffers, those that the store's ring knows by number.
  virtual std::uint64_t registered_bytes() const = 0;
};

}  // namespace sluice::bench
