#include "runtime/sim/schedule/lifetimes.h"

#include <algorithm>

namespace sluice::sim {
namespace {

void Touch(std::uint32_t op, Lifetimes::Life* life) {
  life->first = std::min(life->first, op);
  life->last = std::max(life->last, op);
}

}  // namespace

Lifetimes FindLifetimes(const FileSchedule& schedule, const Extents& extents) {
  Lifetimes lifetimes;
  lifetimes.tensors.resize(schedule.tensors.size());
  lifetimes.extents.resize(extents.size());
  for (std::uint32_t op = 0; op < schedule.ops.size(); ++op) {
    for (const auto* accesses : {&schedule.ops[op].reads, &schedule.ops[op].writes}) {
      for (const FileAccess& access : *accesses) Touch(op, &lifetimes.tensors[access.tensor]);
    }
  }
  for (std::uint32_t i = 0; i < schedule.tensors.size(); ++i) {
    Lifetimes::Life& tensor = lifetimes.tensors[i];
    tensor.persistent = schedule.tensors[i].persistent;
    const Extents::Range range = extents.OfTensor(i);
    for (std::uint32_t k = range.first; k < range.last; ++k) {
      Lifetimes::Life& extent = lifetimes.extents[k];
      extent.persistent = extent.persistent || tensor.persistent;
      extent.first = std::min(extent.first, tensor.first);
      extent.last = std::max(extent.last, tensor.last);
    }
  }
  return lifetimes;
}

}  // namespace sluice::sim
