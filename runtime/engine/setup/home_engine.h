#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "io/engine/choose_engine.h"
#include "sluice/options.h"

namespace sluice::engine {

/// The engine that reads the files of tensors that are only read. A Runtime makes it with the first
/// such tensor. Threads: any.
class HomeEngine {
 public:
  HomeEngine(const IoOptions& options, std::vector<int> cpus);

  /// Returns the engine, which lives as long as this object. Errors: those of io::ChooseEngine.
  absl::StatusOr<io::IoEngine*> Get();
  /// Reason for which the engine is not io_uring; empty when it is, or before there is one.
  std::string reason() const;

 private:
  const Use io_uring_;
  const io::IoEngineOptions options_;
  mutable base::Mutex mutex_;
  io::ChosenEngine chosen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
