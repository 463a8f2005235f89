#include "tests/faults/trace/trace.h"

#include <random>

namespace sluice::faults {
namespace {

constexpr std::uint32_t kTensors = 14;

TraceKind KindOf(std::uint32_t draw) {
  if (draw < 38) return TraceKind::kRead;
  if (draw < 52) return TraceKind::kOverwrite;
  if (draw < 70) return TraceKind::kUpdate;
  if (draw < 84) return TraceKind::kCompute;
  if (draw < 88) return TraceKind::kDiscard;
  if (draw < 92) return TraceKind::kRecreate;
  return TraceKind::kPrefetch;
}

}  // namespace

Trace MakeTrace(std::uint64_t seed, std::uint32_t steps) {
  Trace trace{.seed = seed, .tensors = {}, .steps = {}};
  for (std::uint32_t i = 0; i < kTensors; ++i) {
    trace.tensors.push_back({.pages = 1 + i % 4, .reproducible = i % 3 == 1});
    trace.steps.push_back({.kind = TraceKind::kOverwrite, .tensor = i});
  }
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  const auto draw = [&random](std::uint32_t below) {
    return static_cast<std::uint32_t>(random() % below);
  };
  for (std::uint32_t i = 0; i < steps; ++i) {
    const TraceKind kind = KindOf(draw(100));
    const std::uint32_t tensor = draw(kTensors);
    const std::uint32_t other = (tensor + 1 + draw(kTensors - 1)) % kTensors;
    trace.steps.push_back({.kind = kind, .tensor = tensor, .other = other});
  }
  return trace;
}

}  // namespace sluice::faults
