#include "tests/runtime/sim/simulator/random_schedule.h"

#include <string>

namespace sluice::sim {
namespace {

FileTensor RandomTensor(std::uint64_t id, std::mt19937& random) {
  FileTensor tensor{.id = id, .bytes = 1 + random() % 40, .persistent = random() % 2 == 0};
  tensor.kind = static_cast<TensorKind>(random() % kTensorKindCount);
  if (random() % 2 == 0) {
    tensor.segment = random() % 2;
    tensor.segment_offset = random() % 60;
  }
  return tensor;
}

FileAccess RandomAccess(const FileSchedule& schedule, std::mt19937& random) {
  const auto tensor = static_cast<std::uint32_t>(random() % schedule.tensors.size());
  const std::uint64_t bytes = schedule.tensors[tensor].bytes;
  if (random() % 2 == 0) return {tensor, {0, bytes}};
  const std::uint64_t offset = random() % bytes;
  return {tensor, {offset, 1 + random() % (bytes - offset)}};
}

}  // namespace

FileSchedule RandomSchedule(std::mt19937& random) {
  FileSchedule schedule{.name = "random"};
  for (std::uint64_t i = 0; i < 1 + random() % 8; ++i) {
    schedule.tensors.push_back(RandomTensor(3 * i, random));
  }
  const std::uint64_t ops = 1 + random() % 12;
  for (std::uint64_t i = 0; i < ops; ++i) {
    FileOp op{.id = 2 * i, .name = "op" + std::to_string(random() % 3), .seconds = 0.5};
    for (std::uint64_t k = random() % 4; k > 0; --k) {
      op.reads.push_back(RandomAccess(schedule, random));
    }
    for (std::uint64_t k = random() % 3; k > 0; --k) {
      op.writes.push_back(RandomAccess(schedule, random));
    }
    schedule.ops.push_back(std::move(op));
  }
  return schedule;
}

}  // namespace sluice::sim
