#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/engine/io_engine.h"
#include "sluice/use.h"

namespace sluice::io {

struct ChosenEngine {
  std::unique_ptr<IoEngine> engine;
  std::string reason;  ///< reason against io_uring; empty if it is used
};

/// The engine that `io_uring` asks for and the kernel grants. Errors: FailedPrecondition (io_uring
/// is required and refused), those of MakeThreadEngine.
absl::StatusOr<ChosenEngine> ChooseEngine(const IoEngineOptions& options, Use io_uring);

}  // namespace sluice::io
