#include "runtime/optim/step/range_sweep.h"

#include <algorithm>

#include "base/status.h"

namespace sluice::optim {

Access InDram(TensorId tensor, ByteRange range, AccessMode mode) {
  return {.tensor = tensor, .range = range, .mode = mode, .tier = kDram0, .contiguous = false};
}

absl::Status Run(Runtime& runtime, const std::string& lane, const RangeSweep& sweep) {
  OpPipeline pipeline(runtime, lane);
  const auto range_at = [&](std::uint64_t begin) {
    return ElementRange{begin, std::min(sweep.step, sweep.count - begin)};
  };
  const bool needs_pages = !sweep.accesses(range_at(0)).empty();
  std::uint64_t asked = needs_pages ? 0 : sweep.count;
  for (std::uint64_t begin = 0; begin < sweep.count; begin += sweep.step) {
    for (; asked < sweep.count && pipeline.asked() <= sweep.depth; asked += sweep.step) {
      pipeline.Ask(sweep.name, sweep.accesses(range_at(asked)));
    }
    RunningOp running;
    if (needs_pages) {
      SLUICE_ASSIGN_OR_RETURN(running, pipeline.Next());
    }
    SLUICE_RETURN_IF_ERROR(sweep.work(range_at(begin), running.leases));
  }
  return absl::OkStatus();
}

}  // namespace sluice::optim
