// The kernels: a formula over runs of every combination of types. Compiled once per target.

#if defined(SLUICE_OPTIM_UPDATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPTIM_UPDATE_INL_H_
#undef SLUICE_OPTIM_UPDATE_INL_H_
#else
#define SLUICE_OPTIM_UPDATE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "runtime/optim/accurate_formulas-inl.h"
#include "runtime/optim/block_codes-inl.h"
#include "runtime/optim/formulas-inl.h"
#include "runtime/optim/kernel.h"
#include "runtime/optim/kernel_families.h"
#include "runtime/optim/number_types-inl.h"
#include "runtime/optim/rounding_key.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// What the words of the given numbers are drawn from: not yet good enough itself.
template <class DU, class V>
HWY_INLINE V StartOfWords(DU du, V number, WordKeys::Pair key) {
  auto x = hn::Mul(hn::Xor(number, hn::Set(du, key.first)), hn::Set(du, 0x21f0aaadu));
  x = hn::Add(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(du, key.second));
  x = hn::Mul(x, hn::Set(du, 0x735a2d97u));
  return hn::Xor(x, hn::ShiftRight<15>(x));
}

/// The words that follow, for what is rounded next.
template <class DU, class V>
HWY_INLINE V NextWord(DU du, V word, std::uint32_t key) {
  const auto x = hn::Mul(hn::Xor(word, hn::Set(du, key)), hn::Set(du, 0x2c1b3c6du));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

/// Where a run's 8-bit states are in fp32 until their block is complete.
struct BlockBuffers {
  alignas(64) float values[2][kStateBlock];
};

/// Updates kVectors * Lanes(d) elements at a time: all of a group of random words, or one element.
/// REQUIRES: no run crosses a multiple of 2^32 elements; whole groups begin where groups do.
template <class Formula, StateType kState, ParameterType kParameter, class D, std::size_t kVectors>
class Updater {
 public:
  using V = hn::Vec<D>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr std::size_t kElements = kVectors * kLanes;
  static_assert(kElements == 1 || kElements == kWordGroup);

  HWY_INLINE Updater(const KernelSpec& spec, const KernelArgs& args, BlockBuffers& buffers)
      : gradient_type_(spec.gradient),
        copy_type_(spec.copy),
        args_(args),
        buffers_(buffers),
        coefficients_(args.scalars),
        keys_(MakeWordKeys(args.key, args.element >> 32)) {}

  HWY_INLINE void UpdateAt(std::size_t i) {
    Words words;
    if constexpr (kRoundings > 0) DrawWords(args_.element + i, words);
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; v += kTogether) UpdateTogether(i, v, words);
  }

  /// Whether every gradient so far was.
  HWY_INLINE bool finite() const {
    const hn::RebindToSigned<D> di;
    const auto limit = static_cast<std::int32_t>(kInfinity);
    return hn::GetLane(hn::MaxOfLanes(di, largest_)) < limit;
  }

 private:
  /// Two vectors of 16-bit numbers make a whole one.
  static constexpr std::size_t kTogether = std::min<std::size_t>(kVectors, 2);
  static constexpr std::size_t kWordVectors = std::max<std::size_t>(kVectors / 2, 1);
  static constexpr bool kRoundsStates = kState == StateType::kBf16;
  static constexpr bool kRoundsParameters = kParameter == ParameterType::kBf16;
  /// Numbers of an element that are rounded: states first. Each has words of its own.
  static constexpr int kRoundings =
      (kRoundsStates ? Formula::kStates : 0) + (kRoundsParameters ? 1 : 0);
  /// Where all that is kept is bf16, no NaN has more bits than that once gradients do not.
  static constexpr bool kNarrow = kRoundsStates && kRoundsParameters;

  /// Where all that is kept is fp32, nothing but its last bits may be lost.
  using Arithmetic = std::
      conditional_t<kState == StateType::kFp32 && !kRoundsParameters, Accurate<Formula>, Formula>;

  using VectorArray = V[kTogether];
  struct Words {
    Bits<D> of[3][kWordVectors];
  };

  HWY_INLINE void DrawWords(std::uint64_t element, Words& words) const {
    const hn::RebindToUnsigned<D> du;
    const std::uint32_t first = WordOf(element);
    for (std::size_t w = 0; w < kWordVectors; ++w) {
      const auto number = hn::Iota(du, first + static_cast<std::uint32_t>(w * kLanes));
      auto word = StartOfWords(du, number, keys_.start);
      for (int k = 0; k < kRoundings; ++k) {
        word = NextWord(du, word, keys_.words[k]);
        words.of[k][w] = word;
      }
    }
  }

  /// The bits for vector `v` from element i on.
  HWY_INLINE Bits<D> RandomBits(const Bits<D> (&words)[kWordVectors],
                                std::size_t i,
                                std::size_t v) const {
    const hn::RebindToUnsigned<D> du;
    const bool upper = kVectors == 1 ? IsUpperHalf(args_.element + i) : v >= kWordVectors;
    const Bits<D> word = words[v % kWordVectors];
    return upper ? hn::ShiftRight<16>(word) : hn::And(word, hn::Set(du, 0xffffu));
  }

  HWY_INLINE void UpdateTogether(std::size_t i, std::size_t v, const Words& words) {
    VectorArray p, s, t;
    HWY_UNROLL(2)
    for (std::size_t k = 0; k < kTogether; ++k) {
      const std::size_t at = i + (v + k) * kLanes;
      const V g = LoadScaledGradient(at);
      p[k] = LoadParameter(at);
      s[k] = LoadState<0>(at);
      t[k] = Formula::kStates > 1 ? LoadState<1>(at) : hn::Zero(D());
      Arithmetic::Apply(coefficients_, g, p[k], s[k], t[k]);
    }
    StoreState<0>(s, words, i, v);
    if constexpr (Formula::kStates > 1) StoreState<1>(t, words, i, v);
    StoreParameters(p, words, i, v);
  }

  HWY_INLINE V LoadScaledGradient(std::size_t i) {
    const D d;
    const V raw = LoadGradient(d, gradient_type_, args_.gradients, i);
    V g = hn::Mul(raw, coefficients_.grad_scale);
    if (kNarrow && gradient_type_ != GradientType::kBf16) g = WithPlainNan(d, g);
    largest_ = hn::Max(largest_, hn::BitCast(hn::RebindToSigned<D>(), hn::Abs(g)));
    return g;
  }

  HWY_INLINE V LoadParameter(std::size_t i) const {
    if constexpr (kRoundsParameters) return LoadBf16(D(), args_.parameters, i);
    return hn::LoadU(D(), static_cast<const float*>(args_.parameters) + i);
  }

  template <int kIndex>
  HWY_INLINE V LoadState(std::size_t i) const {
    const StateRun& run = args_.states[kIndex];
    if constexpr (kState == StateType::kBf16) return LoadBf16(D(), run.values, i);
    if constexpr (kState == StateType::k8Bit) {
      const auto* codes = static_cast<const std::uint8_t*>(run.values);
      return LoadCodes<Formula::kSigns[kIndex]>(D(), codes + i, run.scales[i / kStateBlock]);
    }
    return hn::LoadU(D(), static_cast<const float*>(run.values) + i);
  }

  template <int kIndex>
  HWY_INLINE void StoreState(const VectorArray& values,
                             const Words& words,
                             std::size_t i,
                             std::size_t v) const {
    const StateRun& run = args_.states[kIndex];
    if constexpr (kState == StateType::kBf16) {
      StoreRounded(values, words.of[kIndex], i, v, run.values);
    } else if constexpr (kState == StateType::k8Bit) {
      StoreFp32(values, buffers_.values[kIndex] + (i + v * kLanes) % kStateBlock);
    } else {
      StoreFp32(values, static_cast<float*>(run.values) + i + v * kLanes);
    }
  }

  HWY_INLINE void StoreParameters(const VectorArray& p,
                                  const Words& words,
                                  std::size_t i,
                                  std::size_t v) const {
    if constexpr (kRoundsParameters) {
      StoreRounded(p, words.of[kRoundings - 1], i, v, args_.parameters);
    } else {
      const std::size_t at = i + v * kLanes;
      StoreFp32(p, static_cast<float*>(args_.parameters) + at);
      StoreCopy(D(), copy_type_, p, args_.copy, at);
    }
  }

  HWY_INLINE void StoreRounded(const VectorArray& values,
                               const Bits<D> (&words)[kWordVectors],
                               std::size_t i,
                               std::size_t v,
                               void* to) const {
    const D d;
    Bits<D> bits[kTogether];
    for (std::size_t k = 0; k < kTogether; ++k) {
      const Bits<D> random = RandomBits(words, i, v + k);
      bits[k] =
          kNarrow ? RoundNarrow(d, values[k], random) : RoundStochastically(d, values[k], random);
    }
    StoreUpperHalves(d, bits, to, i + v * kLanes);
  }

  static HWY_INLINE void StoreFp32(const VectorArray& values, float* to) {
    for (std::size_t k = 0; k < kTogether; ++k) hn::StoreU(values[k], D(), to + k * kLanes);
  }

  const GradientType gradient_type_;
  const CopyType copy_type_;
  const KernelArgs args_;
  BlockBuffers& buffers_;
  const Coefficients<D> coefficients_;
  const WordKeys keys_;
  hn::Vec<hn::RebindToSigned<D>> largest_ = hn::Zero(hn::RebindToSigned<D>());
};

/// Updates [begin, end) of a run, as far as whole groups go; where it stopped.
template <class U>
HWY_INLINE std::size_t UpdateGroups(U& updater, std::size_t begin, std::size_t end) {
  for (; begin + U::kElements <= end; begin += U::kElements) updater.UpdateAt(begin);
  return begin;
}

/// The kernels of one formula and its types of parameter and state.
template <class Formula, StateType kState, ParameterType kParameter>
struct Kernels {
  using WideTag = hn::CappedTag<float, kWordGroup / 2>;
  using OneTag = hn::CappedTag<float, 1>;
  static constexpr bool kIsScalar = hn::MaxLanes(WideTag()) == 1;
  static constexpr std::size_t kVectors = kIsScalar ? 1 : kWordGroup / hn::MaxLanes(WideTag());
  using Wide = Updater<Formula, kState, kParameter, WideTag, kVectors>;
  using One = Updater<Formula, kState, kParameter, OneTag, 1>;
  static_assert(kStateBlock % Wide::kElements == 0);

  /// What whole groups leave: the elements before the first and after the last.
  static HWY_NOINLINE bool UpdateSingly(const KernelSpec& spec,
                                        const KernelArgs& args,
                                        BlockBuffers& buffers,
                                        std::size_t begin,
                                        std::size_t end) {
    One updater(spec, args, buffers);
    UpdateGroups(updater, begin, end);
    return updater.finite();
  }

  static bool Update(const KernelSpec& spec, const KernelArgs& args) {
    BlockBuffers buffers;
    Wide updater(spec, args, buffers);
    const std::size_t before = (Wide::kElements - args.element % Wide::kElements) % Wide::kElements;
    const std::size_t begin = std::min(before, args.count);
    const bool first = begin == 0 || UpdateSingly(spec, args, buffers, 0, begin);
    const std::size_t done = UpdateGroups(updater, begin, args.count);
    const bool rest = done == args.count || UpdateSingly(spec, args, buffers, done, args.count);
    return updater.finite() && first && rest;
  }

  static bool UpdateBlocks(const KernelSpec& spec, const KernelArgs& args) {
    BlockBuffers buffers;
    Wide updater(spec, args, buffers);
    bool finite = true;
    for (std::size_t begin = 0; begin < args.count; begin += kStateBlock) {
      const std::size_t end = std::min(begin + kStateBlock, args.count);
      const std::size_t done = UpdateGroups(updater, begin, end);
      if (done < end) finite = UpdateSingly(spec, args, buffers, done, end);
      StoreStateBlock<0>(args, buffers, begin, end);
      if constexpr (Formula::kStates > 1) StoreStateBlock<1>(args, buffers, begin, end);
    }
    return updater.finite() && finite;
  }

  template <int kIndex>
  static HWY_INLINE void StoreStateBlock(const KernelArgs& args,
                                         BlockBuffers& buffers,
                                         std::size_t begin,
                                         std::size_t end) {
    const StateRun& run = args.states[kIndex];
    StoreBlock<Formula::kSigns[kIndex]>(buffers.values[kIndex],
                                        end - begin,
                                        static_cast<std::uint8_t*>(run.values) + begin,
                                        run.scales + begin / kStateBlock);
  }
};

template <class Formula, ParameterType kParameter>
UpdateFn FindByState(StateType state) {
  if (state == StateType::kBf16) return Kernels<Formula, StateType::kBf16, kParameter>::Update;
  if (state == StateType::k8Bit) {
    return Kernels<Formula, StateType::k8Bit, kParameter>::UpdateBlocks;
  }
  return Kernels<Formula, StateType::kFp32, kParameter>::Update;
}

template <class Formula>
UpdateFn FindByTypes(const KernelSpec& spec) {
  if (spec.parameter == ParameterType::kBf16) {
    return FindByState<Formula, ParameterType::kBf16>(spec.state);
  }
  return FindByState<Formula, ParameterType::kFp32>(spec.state);
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
