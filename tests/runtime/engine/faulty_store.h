#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "io/page_store.h"

namespace sluice::testing {

/// What to do to a store's requests. Threads: any.
class StoreFaults {
 public:
  /// Reads (writes) fail with this status until it is OK again.
  void FailReads(absl::Status status);
  void FailWrites(absl::Status status);
  /// Completions wait until Release.
  void Hold();
  void Release();
  /// Blocks until `count` completions wait.
  void WaitForHeld(std::size_t count);

  /// A store under these faults, which outlive it.
  std::unique_ptr<io::PageStore> Wrap(std::unique_ptr<io::PageStore> store);

 private:
  friend class FaultyStore;
  absl::Status ReadFault() const;
  absl::Status WriteFault() const;
  void Finish(io::DoneFn done, absl::Status status);

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  absl::Status read_fault_ ABSL_GUARDED_BY(mutex_);
  absl::Status write_fault_ ABSL_GUARDED_BY(mutex_);
  bool hold_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void()>> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::testing
