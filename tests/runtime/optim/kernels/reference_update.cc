#include "tests/runtime/optim/kernels/reference_update.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/runtime/optim/kernels/reference_formulas.h"

namespace sluice::optim {
namespace {

std::uint32_t BitsOf(float value) { return std::bit_cast<std::uint32_t>(value); }
float FromBits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint16_t& Half(void* values, std::size_t i) { return static_cast<std::uint16_t*>(values)[i]; }
float& Float(void* values, std::size_t i) { return static_cast<float*>(values)[i]; }

float LoadGradient(const KernelSpec& spec, const KernelArgs& args, std::size_t i) {
  if (spec.gradient == GradientType::kFp32) return static_cast<const float*>(args.gradients)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(args.gradients)[i];
  return spec.gradient == GradientType::kBf16 ? FromBf16(bits) : FromFp16(bits);
}

float LoadState(const KernelSpec& spec, const StateRun& run, int state, std::size_t i) {
  if (spec.state == StateType::kFp32) return Float(run.values, i);
  if (spec.state == StateType::kBf16) return FromBf16(Half(run.values, i));
  const std::uint8_t code = static_cast<std::uint8_t*>(run.values)[i];
  const bool is_signed = IsSigned(spec.optimizer, state);
  const std::uint8_t magnitude = is_signed ? code & 0x7f : code;
  const auto value = static_cast<float>(ValueOfCode(magnitude, is_signed));
  return (is_signed && code >= 0x80 ? -value : value) * run.scales[i / kStateBlock];
}

void StoreBlock(const std::vector<float>& values,
                bool is_signed,
                std::uint8_t* codes,
                float* scale) {
  float most = 0;
  for (const float value : values) {
    most = std::isfinite(value) && !std::isnan(most) ? std::max(most, std::abs(value))
                                                     : std::numeric_limits<float>::quiet_NaN();
  }
  if (most < 0x1p-126f) most = 0;
  *scale = most;
  for (std::size_t i = 0; i < values.size(); ++i) {
    codes[i] = 0;
    if (!(most > 0)) continue;
    codes[i] = NearestCode(std::min(std::abs(values[i]) * (1 / most), 1.0f), is_signed);
    if (is_signed && std::signbit(values[i])) codes[i] |= 0x80;
    if (!is_signed && values[i] > 0 && codes[i] == 0) codes[i] = 1;
  }
}

class Run {
 public:
  Run(const KernelSpec& spec, const KernelArgs& args) : spec_(spec), args_(args) {}

  bool Update() {
    bool finite = true;
    for (std::size_t i = 0; i < args_.count; ++i) {
      const float loaded = LoadGradient(spec_, args_, i) * args_.scalars.grad_power;
      const float g = loaded * args_.scalars.grad_scale;
      finite = finite && std::isfinite(g);
      ReferenceElement e = Load(i);
      ApplyReference(spec_.optimizer, args_.scalars, g, &e);
      StoreParameter(i, e.p);
      for (int k = 0; k < StateCount(spec_.optimizer); ++k) StoreState(i, k, e.states[k]);
    }
    return finite;
  }

 private:
  ReferenceElement Load(std::size_t i) const {
    ReferenceElement e;
    e.p = spec_.parameter == ParameterType::kFp32 ? Float(args_.parameters, i)
                                                  : FromBf16(Half(args_.parameters, i));
    for (int k = 0; k < StateCount(spec_.optimizer); ++k) {
      e.states[k] = LoadState(spec_, args_.states[k], k, i);
    }
    return e;
  }

  void StoreParameter(std::size_t i, float p) const {
    if (spec_.parameter == ParameterType::kBf16) {
      const int before = spec_.state == StateType::kBf16 ? StateCount(spec_.optimizer) : 0;
      Half(args_.parameters, i) = StochasticBf16(p, RandomBits(i, before));
      return;
    }
    Float(args_.parameters, i) = p;
    if (spec_.copy == CopyType::kBf16) Half(args_.copy, i) = NearestBf16(p);
    if (spec_.copy == CopyType::kFp16) Half(args_.copy, i) = NearestFp16(p);
  }

  void StoreState(std::size_t i, int k, float value) {
    const StateRun& run = args_.states[k];
    if (spec_.state == StateType::kFp32) Float(run.values, i) = value;
    if (spec_.state == StateType::kBf16) {
      Half(run.values, i) = StochasticBf16(value, RandomBits(i, k));
    }
    if (spec_.state != StateType::k8Bit) return;
    block_[k].push_back(value);
    if (block_[k].size() < kStateBlock && i + 1 < args_.count) return;
    const std::size_t first = i + 1 - block_[k].size();
    StoreBlock(block_[k],
               IsSigned(spec_.optimizer, k),
               static_cast<std::uint8_t*>(run.values) + first,
               run.scales + first / kStateBlock);
    block_[k].clear();
  }

  std::uint32_t RandomBits(std::size_t i, int before) const {
    return ReferenceBits(args_.key, args_.element + i, before);
  }

  const KernelSpec spec_;
  const KernelArgs args_;
  std::vector<float> block_[2];
};

}  // namespace

bool ReferenceUpdate(const KernelSpec& spec, const KernelArgs& args) {
  return Run(spec, args).Update();
}

std::uint32_t ReferenceBits(const RoundingKey& key, std::uint64_t element, int before) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  std::uint64_t hash = 0;
  for (const std::uint64_t word : {key.seed, key.tensor, key.step, element >> 32}) {
    hash = Mix((hash ^ word) + kGolden);
  }
  const std::uint64_t keys = Mix(hash + kGolden);
  const std::uint64_t low = element & 0xffffffff;
  auto x = static_cast<std::uint32_t>(((low / 2) ^ keys) & 0xffffffff);
  x = x * 0x21f0aaadu;
  x = (x ^ (x >> 15)) + static_cast<std::uint32_t>(keys >> 32);
  x = x * 0x735a2d97u;
  x = x ^ (x >> 15);
  const std::uint64_t first = Mix(hash + 2 * kGolden);
  const std::uint64_t third = Mix(hash + 3 * kGolden);
  for (const std::uint64_t word : {first, first >> 32, third}) {
    x = (x ^ static_cast<std::uint32_t>(word & 0xffffffff)) * 0x2c1b3c6du;
    x = x ^ (x >> 16);
    if (before-- == 0) break;
  }
  return low % 2 == 0 ? x & 0xffff : x >> 16;
}

float FromBf16(std::uint16_t bits) { return FromBits(std::uint32_t{bits} << 16); }

float FromFp16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  if (exponent == 31) {
    return FromBits(sign | 0x7f800000u | (static_cast<std::uint32_t>(mantissa) << 13));
  }
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -24)
                              : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  return FromBits(sign | BitsOf(magnitude));
}

std::uint16_t NearestBf16(float value) {
  const std::uint32_t bits = BitsOf(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits | 0x400000) >> 16);
  const std::uint32_t below = bits & 0xffff;
  const bool up = below > 0x8000 || (below == 0x8000 && (bits >> 16) % 2 == 1);
  return static_cast<std::uint16_t>((bits >> 16) + (up ? 1 : 0));
}

std::uint16_t NearestFp16(float value) {
  const auto sign = static_cast<std::uint16_t>((BitsOf(value) >> 16) & 0x8000);
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  // The distance of neighbours: 2^-24 below 2^-14, else 2^-10 of the power of two below.
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : -14, -14);
  const double units = std::nearbyint(std::ldexp(double{magnitude}, 10 - exponent));
  // The implicit bit of `units` adds 1 to the exponent.
  return static_cast<std::uint16_t>(sign | ((exponent + 14) * 1024 + static_cast<int>(units)));
}

std::uint16_t StochasticBf16(float value, std::uint32_t random) {
  const std::uint32_t bits = BitsOf(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits | 0x400000) >> 16);
  if (std::isinf(value)) return static_cast<std::uint16_t>(bits >> 16);
  const bool up = (bits & 0xffff) + random >= 0x10000;
  return static_cast<std::uint16_t>((bits >> 16) + (up ? 1 : 0));
}

bool IsSigned(OptimizerKind kind, int state) {
  return state == 0 && kind != OptimizerKind::kAdagrad;
}

double ValueOfCode(std::uint8_t code, bool is_signed) {
  if (code == 0) return 0;
  const double base = is_signed ? 8 : 16;
  const int top = is_signed ? 6 : 7;
  const int level = std::ilogb(code);
  const double steps = std::exp2(level);
  const double place = (code - steps + 1) / steps;
  return std::pow(base, level - top) * (1 + (base - 1) * place) / base;
}

std::uint8_t NearestCode(float ratio, bool is_signed) {
  const float base = is_signed ? 8 : 16;
  const int top = is_signed ? 6 : 7;
  int down = 0;
  float end = 1;
  while (down < top && ratio <= end / base) {
    end /= base;
    ++down;
  }
  const float steps = std::ldexp(1.0f, top - down);
  const float slope = base / (base - 1) * steps / end;
  const float offset = (1 - 1 / (base - 1)) * steps - 1;
  const float code = down == top ? ratio / end : slope * ratio + offset;
  return static_cast<std::uint8_t>(std::nearbyint(code));
}

}  // namespace sluice::optim
