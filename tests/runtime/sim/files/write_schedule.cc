#include "tests/runtime/sim/files/write_schedule.h"

#include <cstdint>
#include <vector>

#include "runtime/sim/files/schedule_lines.h"

namespace sluice::sim {

std::string WriteSchedule(const FileSchedule& schedule) {
  std::string text = HeaderLine({.name = schedule.name,
                                 .key = schedule.key,
                                 .source = schedule.source,
                                 .page_bytes = schedule.page_bytes,
                                 .ops = schedule.ops.size(),
                                 .tensors = schedule.tensors.size()});
  std::vector<OpNames::TensorFacts> tensors;
  std::vector<std::uint64_t> ops;
  for (const FileTensor& tensor : schedule.tensors) {
    tensors.push_back({tensor.id, tensor.bytes});
    text += TensorLine(tensor);
  }
  for (const FileOp& op : schedule.ops) {
    ops.push_back(op.id);
    text += OpLine(op, {.tensors = tensors, .ops = ops});
  }
  return text;
}

}  // namespace sluice::sim
