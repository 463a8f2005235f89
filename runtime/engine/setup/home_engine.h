#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "io/engine/choose_engine.h"
#include "sluice/options.h"

namespace sluice::engine {

/// The engine that reads files of homes that are only read: one for a Runtime, made once there is
/// such a home. Threads: any.
class HomeEngine {
 public:
  HomeEngine(const IoOptions& options, std::vector<int> cpus);

  /// Lifetime: this object's. Errors: those of io::ChooseEngine.
  absl::StatusOr<io::IoEngine*> Get();
  /// Why it is not io_uring; empty when it is, or there is none yet.
  std::string reason() const;

 private:
  const Use io_uring_;
  const io::IoEngineOptions options_;
  mutable base::Mutex mutex_;
  io::ChosenEngine chosen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
