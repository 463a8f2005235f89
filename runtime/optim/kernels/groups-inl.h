// Groups of elements that are updated together, as vectors of fp32. Compiled once per target.

#if defined(SLUICE_OPTIM_GROUPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPTIM_GROUPS_INL_H_
#undef SLUICE_OPTIM_GROUPS_INL_H_
#else
#define SLUICE_OPTIM_GROUPS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/kernels/number_types-inl.h"
#include "runtime/optim/kernels/rounding_key.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// One vector or two: the elements of the first, then those of the second.
template <class Tag, std::size_t kCount>
struct OrderedGroup {
  using D = Tag;
  using V = hn::Vec<D>;
  static constexpr std::size_t kVectors = kCount;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  using Vectors = V[kVectors];

  static HWY_INLINE void LoadFp32(const void* from, std::size_t i, Vectors& to) {
    HWY_UNROLL(2)
    for (std::size_t v = 0; v < kVectors; ++v) {
      to[v] = hn::LoadU(D(), static_cast<const float*>(from) + i + v * kLanes);
    }
  }
  static HWY_INLINE void LoadBf16(const void* from, std::size_t i, Vectors& to) {
    HWY_UNROLL(2)
    for (std::size_t v = 0; v < kVectors; ++v) {
      to[v] = HWY_NAMESPACE::LoadBf16(D(), from, i + v * kLanes);
    }
  }
  static HWY_INLINE void LoadFp16(const void* from, std::size_t i, Vectors& to) {
    HWY_UNROLL(2)
    for (std::size_t v = 0; v < kVectors; ++v) {
      to[v] = FromFp16(D(), LoadHalves(D(), from, i + v * kLanes));
    }
  }
  /// The bits for the elements from `element` on, for which `word` was drawn.
  static HWY_INLINE void SplitWord(Bits<D> word, std::uint64_t element, Bits<D> (&random)[1]) {
    const hn::RebindToUnsigned<D> du;
    random[0] =
        IsUpperHalf(element) ? hn::ShiftRight<16>(word) : hn::And(word, hn::Set(du, 0xffffu));
  }
#if HWY_TARGET != HWY_SCALAR
  static HWY_INLINE void SplitWord(Bits<D> word, std::uint64_t /*element*/, Bits<D> (&random)[2]) {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<std::uint16_t, D> d16;
    const hn::Half<decltype(d16)> half;
    const auto halves = hn::BitCast(d16, word);
    random[0] = hn::PromoteTo(du, hn::LowerHalf(half, halves));
    random[1] = hn::PromoteTo(du, hn::UpperHalf(half, halves));
  }
#endif
  static HWY_INLINE void StoreUpperHalves(const Bits<D> (&bits)[kVectors],
                                          void* to,
                                          std::size_t i) {
    HWY_NAMESPACE::StoreUpperHalves(D(), bits, to, i);
  }
};

using SingleGroup = OrderedGroup<hn::CappedTag<float, 1>, 1>;

#if HWY_TARGET != HWY_SCALAR

using PairGroup = OrderedGroup<hn::CappedTag<float, 16>, 2>;

/// Two vectors, the first with the even elements and the second with the odd ones. Such is the
/// order of 16-bit numbers in memory, and of the bits of random words.
struct AlternatingGroup {
  using D = PairGroup::D;
  using V = hn::Vec<D>;
  using D16 = hn::Repartition<std::uint16_t, D>;
  using DU = hn::RebindToUnsigned<D>;
  static constexpr std::uint32_t kUpperHalf = 0xffff0000;
  static constexpr std::size_t kVectors = 2;
  using Vectors = V[kVectors];

  static HWY_INLINE Bits<D> LoadHalfPairs(const void* from, std::size_t i) {
    return hn::BitCast(DU(), hn::LoadU(D16(), static_cast<const std::uint16_t*>(from) + i));
  }
  static HWY_INLINE void LoadFp32(const void* from, std::size_t i, Vectors& to) {
    Vectors ordered;
    PairGroup::LoadFp32(from, i, ordered);
    to[0] = hn::ConcatEven(D(), ordered[1], ordered[0]);
    to[1] = hn::ConcatOdd(D(), ordered[1], ordered[0]);
  }
  static HWY_INLINE void LoadBf16(const void* from, std::size_t i, Vectors& to) {
    const auto pairs = LoadHalfPairs(from, i);
    to[0] = hn::BitCast(D(), hn::ShiftLeft<16>(pairs));
    to[1] = hn::BitCast(D(), hn::And(pairs, hn::Set(DU(), kUpperHalf)));
  }
  static HWY_INLINE void LoadFp16(const void* from, std::size_t i, Vectors& to) {
    const auto pairs = LoadHalfPairs(from, i);
    to[0] = FromFp16(D(), hn::And(pairs, hn::Set(DU(), 0xffffu)));
    to[1] = FromFp16(D(), hn::ShiftRight<16>(pairs));
  }
  static HWY_INLINE void SplitWord(Bits<D> word, std::uint64_t /*element*/, Bits<D> (&random)[2]) {
    random[0] = hn::AndNot(hn::Set(DU(), kUpperHalf), word);
    random[1] = hn::ShiftRight<16>(word);
  }
  static HWY_INLINE void StoreUpperHalves(const Bits<D> (&bits)[2], void* to, std::size_t i) {
    const auto even = hn::ShiftRight<16>(bits[0]);
    const auto both = hn::OrAnd(even, bits[1], hn::Set(DU(), kUpperHalf));
    hn::StoreU(hn::BitCast(D16(), both), D16(), static_cast<std::uint16_t*>(to) + i);
  }
};

#endif

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
