// Loads and stores of every number type as vectors of fp32. Compiled once per target.

#if defined(SLUICE_OPTIM_NUMBER_TYPES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPTIM_NUMBER_TYPES_INL_H_
#undef SLUICE_OPTIM_NUMBER_TYPES_INL_H_
#else
#define SLUICE_OPTIM_NUMBER_TYPES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "runtime/optim/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Bits = hn::Vec<hn::RebindToUnsigned<D>>;

inline constexpr std::uint32_t kMagnitude = 0x7fffffff;
inline constexpr std::uint32_t kInfinity = 0x7f800000;
inline constexpr std::uint32_t kQuiet = 0x00400000;

/// Magnitudes are compared as signed integers: no bit 31, and SSE4 has no unsigned comparison.
template <class DU, class V>
HWY_INLINE auto IsBelow(DU du, V magnitude, std::uint32_t limit) {
  const hn::RebindToSigned<DU> di;
  const auto below = hn::Lt(hn::BitCast(di, magnitude), hn::BitCast(di, hn::Set(du, limit)));
  return hn::RebindMask(du, below);
}

/// The 16-bit numbers from `from` on, each in the lower half of a lane.
template <class D>
HWY_INLINE Bits<D> LoadHalves(D /*d*/, const void* from, std::size_t i) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> du;
  return hn::PromoteTo(du, hn::LoadU(d16, static_cast<const std::uint16_t*>(from) + i));
}

/// Stores the lanes as 16-bit numbers. REQUIRES: lanes below 2^16.
template <class D>
HWY_INLINE void StoreHalves(D /*d*/, Bits<D> halves, void* to, std::size_t i) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToSigned<D> di;
  const auto narrow = hn::DemoteTo(d16, hn::BitCast(di, halves));
  hn::StoreU(narrow, d16, static_cast<std::uint16_t*>(to) + i);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadBf16(D d, const void* from, std::size_t i) {
  return hn::BitCast(d, hn::ShiftLeft<16>(LoadHalves(d, from, i)));
}

/// Value of an fp16 in the lower half of a lane with 0 in the upper half. The value is exact, for
/// denormals, infinities and NaNs too.
template <class D>
HWY_INLINE hn::Vec<D> FromFp16(D d, Bits<D> half) {
  const hn::RebindToUnsigned<D> du;
  const auto magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(du, 0x7fffu)));
  const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000u)));
  const auto scaled = hn::BitCast(du, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
  const auto special = hn::Or(magnitude, hn::Set(du, kInfinity));
  const auto is_finite = IsBelow(du, magnitude, 0x0f800000u);
  return hn::BitCast(d, hn::Or(hn::IfThenElse(is_finite, scaled, special), sign));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadGradient(D d, GradientType type, const void* from, std::size_t i) {
  if (type == GradientType::kBf16) return LoadBf16(d, from, i);
  if (type == GradientType::kFp16) return FromFp16(d, LoadHalves(d, from, i));
  return hn::LoadU(d, static_cast<const float*>(from) + i);
}

/// `value` in the upper half of a lane, rounded to bf16: away from zero where the lower half plus
/// `random` (below 2^16) reaches 2^16. A NaN stays one. REQUIRES: it is quiet.
template <class D>
HWY_INLINE Bits<D> RoundStochastically(D /*d*/, hn::Vec<D> value, Bits<D> random) {
  const hn::RebindToUnsigned<D> du;
  const auto is_number = hn::RebindMask(du, hn::Eq(value, value));
  return hn::Add(hn::BitCast(du, value), hn::IfThenElseZero(is_number, random));
}

/// RoundStochastically without a look at NaNs. REQUIRES: no NaN has bits in the lower half.
template <class D>
HWY_INLINE Bits<D> RoundNarrow(D /*d*/, hn::Vec<D> value, Bits<D> random) {
  return hn::Add(hn::BitCast(hn::RebindToUnsigned<D>(), value), random);
}

/// `value`, but for a NaN one that has no bits in the lower half.
template <class D>
HWY_INLINE hn::Vec<D> WithPlainNan(D d, hn::Vec<D> value) {
  const auto plain = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), kInfinity | kQuiet));
  return hn::IfThenElse(hn::Eq(value, value), value, plain);
}

/// `value` in the upper half of a lane, rounded to bf16, to nearest and ties to even. A NaN stays
/// one. REQUIRES: it is quiet.
template <class D>
HWY_INLINE Bits<D> RoundToNearest(D d, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> du;
  const auto odd = hn::And(hn::ShiftRight<16>(hn::BitCast(du, value)), hn::Set(du, 1u));
  return RoundStochastically(d, value, hn::Add(odd, hn::Set(du, 0x7fffu)));
}

/// Stores the upper halves of the lanes of one vector or two.
template <class D, std::size_t kVectors>
HWY_INLINE void StoreUpperHalves([[maybe_unused]] D d,
                                 const Bits<D> (&bits)[kVectors],
                                 void* to,
                                 std::size_t i) {
  if constexpr (kVectors == 1) {
    StoreHalves(d, hn::ShiftRight<16>(bits[0]), to, i);
  } else {
#if HWY_TARGET != HWY_SCALAR
    const hn::Repartition<std::uint16_t, D> d16;
    const auto both = hn::ConcatOdd(d16, hn::BitCast(d16, bits[1]), hn::BitCast(d16, bits[0]));
    hn::StoreU(both, d16, static_cast<std::uint16_t*>(to) + i);
#endif
  }
}

/// `value` in the upper half of a lane, rounded to fp16, to nearest and ties to even. Values from
/// 65520 on become infinity. A NaN becomes 0x7e00 with its sign.
template <class D>
HWY_INLINE Bits<D> RoundToFp16(D d, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, value);
  const auto magnitude = hn::And(bits, hn::Set(du, kMagnitude));
  const auto sign = hn::AndNot(hn::Set(du, kMagnitude), bits);
  // Results below 2^-14 are denormals: adding 0.5 leaves their bits at the bottom.
  const auto shifted = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
  const auto small = hn::Sub(hn::BitCast(du, shifted), hn::Set(du, 0x3f000000u));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  const auto rebiased = hn::Add(magnitude, hn::Add(odd, hn::Set(du, 0xc8000fffu)));
  const auto normal = hn::ShiftRight<13>(rebiased);
  const auto is_number = IsBelow(du, magnitude, kInfinity + 1);
  const auto special = hn::IfThenElse(is_number, hn::Set(du, 0x7c00u), hn::Set(du, 0x7e00u));
  const auto finite = hn::IfThenElse(IsBelow(du, magnitude, 0x38800000u), small, normal);
  const auto half = hn::IfThenElse(IsBelow(du, magnitude, 0x477ff000u), finite, special);
  return hn::Or(hn::ShiftLeft<16>(half), sign);
}

/// Stores one vector or two.
template <class D, std::size_t kVectors>
HWY_INLINE void StoreCopy(
    D d, CopyType type, const hn::Vec<D> (&values)[kVectors], void* to, std::size_t i) {
  if (type == CopyType::kNone) return;
  Bits<D> bits[kVectors];
  HWY_UNROLL(2)
  for (std::size_t k = 0; k < kVectors; ++k) {
    bits[k] = type == CopyType::kBf16 ? RoundToNearest(d, values[k]) : RoundToFp16(d, values[k]);
  }
  StoreUpperHalves(d, bits, to, i);
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
