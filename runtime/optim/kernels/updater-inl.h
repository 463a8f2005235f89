// The update of a run of one combination of types. Compiled once per target.

#if defined(SLUICE_OPTIM_UPDATER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPTIM_UPDATER_INL_H_
#undef SLUICE_OPTIM_UPDATER_INL_H_
#else
#define SLUICE_OPTIM_UPDATER_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "runtime/optim/kernels/block_codes-inl.h"
#include "runtime/optim/kernels/formulas-inl.h"
#include "runtime/optim/kernels/groups-inl.h"
#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/kernels/number_types-inl.h"
#include "runtime/optim/kernels/random_words-inl.h"
#include "runtime/optim/kernels/rounding_key.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// Buffers for a run's 8-bit states, in fp32 until their block is complete.
struct BlockBuffers {
  alignas(64) float values[2][kStateBlock];
};

/// Updates a run, a group of elements at a time. REQUIRES: no run crosses a multiple of 2^32
/// elements; groups of several begin at even elements.
template <class Formula, StateType kState, ParameterType kParameter, class Group>
class RunUpdater {
 public:
  using D = typename Group::D;
  using V = hn::Vec<D>;
  static constexpr std::size_t kVectors = Group::kVectors;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr std::size_t kElements = kVectors * kLanes;

  HWY_INLINE RunUpdater(const KernelSpec& spec, const KernelArgs& args, BlockBuffers& buffers)
      : gradient_type_(spec.gradient),
        copy_type_(spec.copy),
        args_(args),
        buffers_(buffers),
        coefficients_(args.scalars),
        keys_(MakeWordKeys(args.key, args.element >> 32)) {}

  /// Updates [begin, end) as far as whole groups go; returns where it stopped.
  HWY_INLINE std::size_t Update(std::size_t begin, std::size_t end) {
    Bits<D> numbers = WordNumbersOf(begin);
    for (; begin + kElements <= end; begin += kElements) {
      const Words<D> words = DrawWords<kRoundings>(D(), keys_, numbers);
      numbers = WordNumbersAfter(numbers, begin);
      UpdateGroup(begin, words);
    }
    return begin;
  }

  /// Whether every gradient so far was finite.
  HWY_INLINE bool finite() const { return hn::AllTrue(D(), hn::Eq(taint_, taint_)); }

 private:
  static constexpr bool kRoundsStates = kState == StateType::kBf16;
  static constexpr bool kRoundsParameters = kParameter == ParameterType::kBf16;
  /// Numbers of an element that are rounded, states first. Each number has words of its own.
  static constexpr int kRoundings =
      (kRoundsStates ? Formula::kStates : 0) + (kRoundsParameters ? 1 : 0);
  /// Whether all numbers kept are bf16. No NaN then has more bits than a bf16, once the NaNs of
  /// gradients have no more.
  static constexpr bool kNarrow = kRoundsStates && kRoundsParameters;
  using Vectors = V[kVectors];

  HWY_INLINE Bits<D> WordNumbersOf(std::size_t i) const {
    return hn::Iota(hn::RebindToUnsigned<D>(), WordOf(args_.element + i));
  }
  /// Word numbers of the group that follows group `i`, which has `numbers`.
  HWY_INLINE Bits<D> WordNumbersAfter(Bits<D> numbers, std::size_t i) const {
    if constexpr (kElements % 2 != 0) return WordNumbersOf(i + kElements);
    return hn::Add(numbers, hn::Set(hn::RebindToUnsigned<D>(), kElements / 2));
  }

  HWY_INLINE void UpdateGroup(std::size_t i, const Words<D>& words) {
    if constexpr (kVectors > 1) AskAhead(i);
    Vectors g, p, s, t;
    LoadScaledGradients(i, g);
    LoadParameters(i, p);
    LoadState<0>(i, s);
    if constexpr (Formula::kStates > 1) LoadState<1>(i, t);
    HWY_UNROLL(2)
    for (std::size_t v = 0; v < kVectors; ++v) {
      if constexpr (Formula::kStates == 1) t[v] = s[v];
      Element<V> element{p[v], s[v], t[v]};
      Formula::Update(coefficients_, g[v], element);
      p[v] = element.parameter;
      s[v] = element.first;
      t[v] = element.second;
    }
    StoreState<0>(s, words, i);
    if constexpr (Formula::kStates > 1) StoreState<1>(t, words, i);
    StoreParameters(p, words, i);
  }

  /// Asks for the memory that a later group needs. The processor itself looks ahead no farther than
  /// a few groups and, in each stream, to the end of 4 KiB.
  HWY_INLINE void AskAhead(std::size_t i) const {
    constexpr std::size_t kStateBytes = kState == StateType::kFp32 ? 4 : kRoundsStates ? 2 : 1;
    AskFor<kRoundsParameters ? 2 : 4>(args_.parameters, i);
    AskFor<kStateBytes>(args_.states[0].values, i);
    if constexpr (Formula::kStates > 1) AskFor<kStateBytes>(args_.states[1].values, i);
    if (gradient_type_ == GradientType::kFp32) {
      AskFor<4>(args_.gradients, i);
    } else {
      AskFor<2>(args_.gradients, i);
    }
  }

  template <std::size_t kBytes>
  static HWY_INLINE void AskFor(const void* from, std::size_t i) {
    constexpr std::size_t kLine = 64;
    const auto* at = static_cast<const std::uint8_t*>(from) + i * kBytes + kBytesAhead;
    HWY_UNROLL(2)
    for (std::size_t k = 0; k < kElements * kBytes; k += kLine) hwy::Prefetch(at + k);
  }

  HWY_INLINE void LoadScaledGradients(std::size_t i, Vectors& g) {
    const D d;
    if (gradient_type_ == GradientType::kBf16) {
      Group::LoadBf16(args_.gradients, i, g);
    } else if (gradient_type_ == GradientType::kFp16) {
      Group::LoadFp16(args_.gradients, i, g);
    } else {
      Group::LoadFp32(args_.gradients, i, g);
    }
    HWY_UNROLL(2)
    for (std::size_t v = 0; v < kVectors; ++v) {
      g[v] = hn::Mul(g[v], coefficients_.grad_scale);
      if (kNarrow && gradient_type_ != GradientType::kBf16) g[v] = WithPlainNan(d, g[v]);
      taint_ = hn::MulAdd(g[v], hn::Zero(d), taint_);
    }
  }

  HWY_INLINE void LoadParameters(std::size_t i, Vectors& p) const {
    if constexpr (kRoundsParameters) {
      Group::LoadBf16(args_.parameters, i, p);
    } else {
      Group::LoadFp32(args_.parameters, i, p);
    }
  }

  template <int kIndex>
  HWY_INLINE void LoadState(std::size_t i, Vectors& to) const {
    const StateRun& run = args_.states[kIndex];
    if constexpr (kState == StateType::kBf16) {
      Group::LoadBf16(run.values, i, to);
    } else if constexpr (kState == StateType::k8Bit) {
      const auto* codes = static_cast<const std::uint8_t*>(run.values) + i;
      HWY_UNROLL(2)
      for (std::size_t v = 0; v < kVectors; ++v) {
        const float scale = run.scales[i / kStateBlock];
        to[v] = LoadCodes<Formula::kSigns[kIndex]>(D(), codes + v * kLanes, scale);
      }
    } else {
      Group::LoadFp32(run.values, i, to);
    }
  }

  template <int kIndex>
  HWY_INLINE void StoreState(const Vectors& values, const Words<D>& words, std::size_t i) const {
    const StateRun& run = args_.states[kIndex];
    if constexpr (kState == StateType::kBf16) {
      StoreRounded(values, words.of[kIndex], i, run.values);
    } else if constexpr (kState == StateType::k8Bit) {
      StoreFp32(values, buffers_.values[kIndex] + i % kStateBlock);
    } else {
      StoreFp32(values, static_cast<float*>(run.values) + i);
    }
  }

  HWY_INLINE void StoreParameters(const Vectors& p, const Words<D>& words, std::size_t i) const {
    if constexpr (kRoundsParameters) {
      StoreRounded(p, words.of[kRoundings - 1], i, args_.parameters);
    } else {
      StoreFp32(p, static_cast<float*>(args_.parameters) + i);
      StoreCopy(D(), copy_type_, p, args_.copy, i);
    }
  }

  HWY_INLINE void StoreRounded(const Vectors& values, Bits<D> word, std::size_t i, void* to) const {
    const D d;
    Bits<D> random[kVectors];
    Bits<D> bits[kVectors];
    Group::SplitWord(word, args_.element + i, random);
    HWY_UNROLL(2)
    for (std::size_t v = 0; v < kVectors; ++v) {
      bits[v] = kNarrow ? RoundNarrow(d, values[v], random[v])
                        : RoundStochastically(d, values[v], random[v]);
    }
    Group::StoreUpperHalves(bits, to, i);
  }

  static HWY_INLINE void StoreFp32(const Vectors& values, float* to) {
    HWY_UNROLL(2)
    for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(values[v], D(), to + v * kLanes);
  }

  const GradientType gradient_type_;
  const CopyType copy_type_;
  const KernelArgs args_;
  BlockBuffers& buffers_;
  const Coefficients<D> coefficients_;
  const WordKeys keys_;
  /// Zero in each lane, or a NaN once a gradient was a NaN or infinite.
  V taint_ = hn::Zero(D());
};

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
