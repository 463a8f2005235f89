#include "runtime/engine/setup/home_engine.h"

#include <utility>

#include "base/status.h"

namespace sluice::engine {

HomeEngine::HomeEngine(const IoOptions& options, std::vector<int> cpus)
    : io_uring_(options.io_uring),
      options_{.queue_depth = options.queue_depth,
               .bytes_in_flight_max = options.bytes_in_flight.count(),
               .cpus = std::move(cpus)} {}

absl::StatusOr<io::IoEngine*> HomeEngine::Get() {
  const base::MutexLock lock(mutex_);
  if (chosen_.engine == nullptr) {
    SLUICE_ASSIGN_OR_RETURN(chosen_, io::ChooseEngine(options_, io_uring_));
  }
  return chosen_.engine.get();
}

std::string HomeEngine::reason() const {
  const base::MutexLock lock(mutex_);
  return chosen_.reason;
}

}  // namespace sluice::engine
