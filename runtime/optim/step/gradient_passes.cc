#include "runtime/optim/step/gradient_passes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "runtime/optim/step/gradient_sum.h"
#include "runtime/optim/step/range_sweep.h"
#include "runtime/optim/step/work_span.h"

namespace sluice::optim {
namespace {

/// One block, put together where it is cut.
class Block {
 public:
  Block(const Pieces& pieces, std::size_t begin, std::size_t count) {
    if (pieces.Together(begin) >= count) {
      data_ = pieces.At(begin);
    } else {
      pieces.CopyOut(begin, count, copy_.data());
      data_ = copy_.data();
    }
  }
  std::byte* data() { return data_; }

 private:
  alignas(64) std::array<std::byte, kSumOfSquaresBlock * sizeof(float)> copy_;
  std::byte* data_ = nullptr;
};

/// The blocks' own sums, so that they can be added up in order.
std::vector<double> SumBlocks(ForkJoin& join,
                              GradientType type,
                              const Pieces& gradient,
                              std::size_t count) {
  std::vector<double> blocks((count + kSumOfSquaresBlock - 1) / kSumOfSquaresBlock);
  join.ForEach(count, kSumOfSquaresBlock, [&](std::size_t begin, std::size_t end) {
    for (; begin < end; begin += kSumOfSquaresBlock) {
      const std::size_t size = std::min(kSumOfSquaresBlock, end - begin);
      Block block(gradient, begin, size);
      blocks[begin / kSumOfSquaresBlock] = SumOfSquares(type, block.data(), size);
    }
  });
  return blocks;
}

void AddRange(const RangeMemory& memory, GradientSum args, std::size_t begin, std::size_t end) {
  for (; begin < end; begin += args.count) {
    args.count =
        std::min({memory.gradient.Together(begin), memory.sum.Together(begin), end - begin});
    args.gradients = memory.gradient.At(begin);
    args.sum = memory.sum.At(begin);
    AddGradients(args);
  }
}

}  // namespace

struct GradientPasses::Pass {
  const ParameterEntry& entry;
  const GradientSource& gradient;
  TensorId sum;  ///< none: only the gradient is read
  std::size_t sum_bytes = 0;
  AccessMode sum_mode = AccessMode::kReadWrite;
  std::string name;
  std::function<void(const RangeMemory& memory, std::size_t count)> work;
};

std::vector<Access> GradientPasses::AccessesOf(const Pass& pass, ElementRange range) {
  std::vector<Access> accesses;
  const auto add = [&](TensorId tensor, std::size_t bytes, AccessMode mode) {
    accesses.push_back(InDram(tensor, BytesOfElements(range, bytes), mode));
  };
  if (pass.gradient.tensor != TensorId()) {
    add(pass.gradient.tensor, BytesOf(pass.gradient.type), AccessMode::kRead);
  }
  if (pass.sum != TensorId()) add(pass.sum, pass.sum_bytes, pass.sum_mode);
  return accesses;
}

void GradientPasses::Work(const Pass& pass, ElementRange range, const std::vector<Lease>& leases) {
  const WorkSpan span(runtime_, options_.lane, pass.name, range.count);
  const std::size_t size = BytesOf(pass.gradient.type);
  RangeMemory memory;
  std::size_t next = 0;
  if (pass.gradient.tensor != TensorId()) {
    memory.gradient = Pieces(leases[next++], size);
  } else {
    const ByteRange bytes = BytesOfElements(range, size);
    // The gradient is only read.
    auto* own = const_cast<std::byte*>(pass.gradient.bytes.data()) + bytes.offset;
    memory.gradient = Pieces(std::span<std::byte>(own, bytes.bytes), size);
  }
  if (pass.sum != TensorId()) memory.sum = Pieces(leases[next++], pass.sum_bytes);
  pass.work(memory, range.count);
}

absl::Status GradientPasses::Run(const Pass& pass) {
  return optim::Run(runtime_,
                    options_.lane,
                    {.name = pass.name,
                     .count = pass.entry.count,
                     .step = options_.range_elements,
                     .depth = options_.depth,
                     .accesses = [&](ElementRange range) { return AccessesOf(pass, range); },
                     .work =
                         [&](ElementRange range, const std::vector<Lease>& leases) {
                           Work(pass, range, leases);
                           return absl::OkStatus();
                         }});
}

absl::StatusOr<double> GradientPasses::Scan(const ParameterEntry& entry,
                                            const GradientSource& gradient) {
  double total = 0;
  const auto work = [&](const RangeMemory& memory, std::size_t count) {
    for (const double block : SumBlocks(join_, gradient.type, memory.gradient, count)) {
      total += block;
    }
  };
  SLUICE_RETURN_IF_ERROR(
      Run({.entry = entry, .gradient = gradient, .name = "norm." + entry.name, .work = work}));
  return total;
}

absl::Status GradientPasses::Accumulate(const ParameterEntry& entry,
                                        const GradientSource& gradient,
                                        GradientType sum_type,
                                        bool first) {
  const auto work = [&](const RangeMemory& memory, std::size_t count) {
    const GradientSum args{.sum_type = sum_type, .type = gradient.type, .first = first};
    join_.ForEach(count, kSumOfSquaresBlock, [&](std::size_t begin, std::size_t end) {
      AddRange(memory, args, begin, end);
    });
  };
  return Run({.entry = entry,
              .gradient = gradient,
              .sum = entry.accumulator,
              .sum_bytes = BytesOf(sum_type),
              .sum_mode = first ? AccessMode::kOverwrite : AccessMode::kReadWrite,
              .name = "accumulate." + entry.name,
              .work = work});
}

}  // namespace sluice::optim
