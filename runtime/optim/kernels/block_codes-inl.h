// 8-bit states: the codes of a block and its scale. Compiled once per target.

#if defined(SLUICE_OPTIM_BLOCK_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPTIM_BLOCK_CODES_INL_H_
#undef SLUICE_OPTIM_BLOCK_CODES_INL_H_
#else
#define SLUICE_OPTIM_BLOCK_CODES_INL_H_
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "runtime/optim/kernels/code_map.h"
#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/kernels/number_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// The entry of a table for each lane, by indices from 0 to 7.
template <class D, class VI>
HWY_INLINE hn::Vec<D> LookUp(D d, const std::array<float, 16>& table, VI index) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  if constexpr (kLanes == 1) {
    return hn::Set(d, table[static_cast<std::size_t>(hn::GetLane(index))]);
  } else if constexpr (kLanes == 4) {
    const hn::RebindToSigned<D> di;
    const auto in_half = hn::IndicesFromVec(d, hn::And(index, hn::Set(di, 3)));
    const auto low = hn::TableLookupLanes(hn::LoadU(d, table.data()), in_half);
    const auto high = hn::TableLookupLanes(hn::LoadU(d, table.data() + 4), in_half);
    return hn::IfThenElse(hn::RebindMask(d, hn::Gt(index, hn::Set(di, 3))), high, low);
  } else {
    return hn::TableLookupLanes(hn::LoadU(d, table.data()), hn::IndicesFromVec(d, index));
  }
}

/// The value, from 0 to 1, of a code without its sign. Every operation is exact.
template <Sign kSign, class D>
HWY_INLINE hn::Vec<D> ValueOfCode(D d, Bits<D> code) {
  const hn::RebindToSigned<D> di;
  const auto number = hn::ConvertTo(d, hn::BitCast(di, code));
  const auto exponent = hn::ShiftRight<23>(hn::BitCast(di, number));
  const auto level = hn::Sub(hn::Max(exponent, hn::Set(di, 127)), hn::Set(di, 127));
  const auto slope = LookUp(d, kValueLines<kSign>.slopes, level);
  return hn::Add(hn::Mul(slope, number), LookUp(d, kValueLines<kSign>.offsets, level));
}

/// The code whose value is next to `ratio`, from 0 to 1.
template <Sign kSign, class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> NearestCode(D d, hn::Vec<D> ratio) {
  const hn::RebindToSigned<D> di;
  // The ratio less one unit in the last place, so that the end of a level belongs to the level.
  const auto below = hn::Sub(hn::BitCast(di, ratio), hn::Set(di, 1));
  const auto halvings = hn::Sub(hn::Set(di, 126), hn::ShiftRight<23>(below));
  const auto levels = kSign == Sign::kUnsigned
                          ? hn::ShiftRight<2>(halvings)
                          : hn::ShiftRight<7>(hn::Mul(halvings, hn::Set(di, 43)));  // division by 3
  const auto down = hn::Min(levels, hn::Set(di, CodeMap<kSign>::kTop));
  const auto slope = LookUp(d, kCodeLines<kSign>.slopes, down);
  const auto code = hn::Add(hn::Mul(slope, ratio), LookUp(d, kCodeLines<kSign>.offsets, down));
  // 2^23 has no bits below 1: adding it rounds to an integer, ties to even.
  const auto rounded = hn::BitCast(di, hn::Add(code, hn::Set(d, 0x1p23f)));
  return hn::And(rounded, hn::Set(di, 0xff));
}

/// Values of Lanes(d) codes.
template <Sign kSign, class D>
HWY_INLINE hn::Vec<D> LoadCodes(D d, const std::uint8_t* codes, float scale) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint8_t, D> d8;
  const auto code = hn::PromoteTo(du, hn::LoadU(d8, codes));
  if constexpr (kSign == Sign::kUnsigned) {
    return hn::Mul(ValueOfCode<kSign>(d, code), hn::Set(d, scale));
  }
  const auto magnitude = ValueOfCode<kSign>(d, hn::And(code, hn::Set(du, 0x7fu)));
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(du, 0x80u)));
  const auto value = hn::BitCast(d, hn::Or(hn::BitCast(du, magnitude), sign));
  return hn::Mul(value, hn::Set(d, scale));
}

template <Sign kSign, class D>
HWY_INLINE void StoreCodes(D d, hn::Vec<D> value, float inverse, std::uint8_t* codes) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint8_t, D> d8;
  const auto ratio = hn::Mul(hn::Abs(value), hn::Set(d, inverse));
  const auto code = NearestCode<kSign>(d, hn::Min(ratio, hn::Set(d, 1.0f)));
  if constexpr (kSign == Sign::kUnsigned) {
    // The code is never 0 unless the value is: the value stands below a square root in a divisor.
    const auto is_some = hn::RebindMask(di, hn::Gt(value, hn::Zero(d)));
    const auto at_least = hn::Max(code, hn::IfThenElseZero(is_some, hn::Set(di, 1)));
    hn::StoreU(hn::DemoteTo(d8, at_least), d8, codes);
  } else {
    const auto bits = hn::BitCast(du, value);
    const auto sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(du, 0x80u));
    hn::StoreU(hn::DemoteTo(d8, hn::Or(code, hn::BitCast(di, sign))), d8, codes);
  }
}

/// The largest magnitude of `count` values, a multiple of Lanes(d): quiet NaN when one is not
/// finite, 0 when it is a denormal, which has no inverse.
template <class D>
HWY_INLINE float ScaleOfBlock(D d, const float* values, std::size_t count) {
  constexpr std::int32_t kLeastNormal = 0x00800000;
  const hn::RebindToSigned<D> di;
  auto most = hn::Zero(di);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    most = hn::Max(most, hn::BitCast(di, hn::Abs(hn::LoadU(d, values + i))));
  }
  std::int32_t bits = hn::GetLane(hn::MaxOfLanes(di, most));
  if (bits >= static_cast<std::int32_t>(kInfinity)) bits = kInfinity | kQuiet;
  if (bits < kLeastNormal) bits = 0;
  float scale = 0;
  std::memcpy(&scale, &bits, sizeof(scale));
  return scale;
}

/// Writes the codes of a block of `count` values, and its scale. `values` has kStateBlock elements;
/// those from `count` on are overwritten. A block with a NaN or an infinity becomes NaN as a whole.
template <Sign kSign>
HWY_INLINE void StoreBlock(float* values, std::size_t count, std::uint8_t* codes, float* scale) {
  const hn::CappedTag<float, kStateBlock> d;
  for (std::size_t i = count; i < kStateBlock; ++i) values[i] = 0;
  *scale = ScaleOfBlock(d, values, kStateBlock);
  if (!(*scale > 0)) {
    std::memset(codes, 0, count);
    return;
  }
  const float inverse = 1.0f / *scale;
  std::uint8_t last[kStateBlock];
  std::uint8_t* const to = count == kStateBlock ? codes : last;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    StoreCodes<kSign>(d, hn::LoadU(d, values + i), inverse, to + i);
  }
  if (to == last) std::memcpy(codes, last, count);
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
