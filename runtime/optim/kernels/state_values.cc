#include "runtime/optim/kernels/state_values.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/optim/kernels/state_values.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/highway.h"
#include "runtime/optim/kernels/block_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

template <Sign kSign>
void ReadBlock(const StateBlock& block) {
  const hn::CappedTag<float, kStateBlock> d;
  const auto* codes = static_cast<const std::uint8_t*>(block.kept);
  for (std::size_t i = 0; i < block.count; i += hn::Lanes(d)) {
    hn::StoreU(LoadCodes<kSign>(d, codes + i, *block.scale), d, block.values + i);
  }
}

void ReadSigned(const StateBlock& block) { ReadBlock<Sign::kSigned>(block); }
void ReadUnsigned(const StateBlock& block) { ReadBlock<Sign::kUnsigned>(block); }
void WriteSigned(const StateBlock& block) {
  auto* codes = static_cast<std::uint8_t*>(block.kept);
  StoreBlock<Sign::kSigned>(block.values, block.count, codes, block.scale);
}
void WriteUnsigned(const StateBlock& block) {
  auto* codes = static_cast<std::uint8_t*>(block.kept);
  StoreBlock<Sign::kUnsigned>(block.values, block.count, codes, block.scale);
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <cstring>

#include "runtime/optim/kernels/float_environment.h"
#include "runtime/optim/kernels/parameter_copy.h"

namespace sluice::optim {

HWY_EXPORT(ReadSigned);
HWY_EXPORT(ReadUnsigned);
HWY_EXPORT(WriteSigned);
HWY_EXPORT(WriteUnsigned);

namespace {

/// Whether the formulas' state has a sign: squares have none.
bool HasSign(const StateBlock& block) {
  return block.optimizer != OptimizerKind::kAdagrad && block.state == 0;
}

void ReadBf16(const StateBlock& block) {
  const auto* halves = static_cast<const std::uint16_t*>(block.kept);
  for (std::size_t i = 0; i < block.count; ++i) {
    const std::uint32_t bits = std::uint32_t{halves[i]} << 16;
    std::memcpy(block.values + i, &bits, sizeof(bits));
  }
}

}  // namespace

void ReadStateBlock(const StateBlock& block) {
  const DefaultFloatEnvironment environment;
  if (block.type == StateType::kFp32) {
    std::memcpy(block.values, block.kept, block.count * sizeof(float));
  } else if (block.type == StateType::kBf16) {
    ReadBf16(block);
  } else if (HasSign(block)) {
    HWY_DYNAMIC_DISPATCH(ReadSigned)(block);
  } else {
    HWY_DYNAMIC_DISPATCH(ReadUnsigned)(block);
  }
}

void WriteStateBlock(const StateBlock& block) {
  const DefaultFloatEnvironment environment;
  if (block.type == StateType::kFp32) {
    std::memcpy(block.kept, block.values, block.count * sizeof(float));
  } else if (block.type == StateType::kBf16) {
    CopyParameters({.parameters = block.values, .copy = block.kept, .count = block.count});
  } else if (HasSign(block)) {
    HWY_DYNAMIC_DISPATCH(WriteSigned)(block);
  } else {
    HWY_DYNAMIC_DISPATCH(WriteUnsigned)(block);
  }
}

}  // namespace sluice::optim

#endif  // HWY_ONCE
