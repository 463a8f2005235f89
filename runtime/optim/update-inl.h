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

#include "hwy/highway.h"
#include "runtime/optim/block_codes-inl.h"
#include "runtime/optim/formulas-inl.h"
#include "runtime/optim/kernel.h"
#include "runtime/optim/kernel_families.h"
#include "runtime/optim/number_types-inl.h"
#include "runtime/optim/rounding_key.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// The random word of each element, for its states.
template <class DU, class V>
HWY_INLINE V RandomWord(DU du, V element, WordKeys::Pair key) {
  auto x = hn::Mul(hn::Xor(element, hn::Set(du, key.first)), hn::Set(du, 0x21f0aaadu));
  x = hn::Add(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(du, key.second));
  x = hn::Mul(x, hn::Set(du, 0x735a2d97u));
  return hn::Xor(x, hn::ShiftRight<15>(x));
}

/// The word that follows it, for the parameter.
template <class DU, class V>
HWY_INLINE V NextWord(DU du, V word, std::uint32_t key) {
  const auto x = hn::Mul(hn::Xor(word, hn::Set(du, key)), hn::Set(du, 0x2c1b3c6du));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

/// Where a run's 8-bit states are in fp32 until their block is complete.
struct BlockBuffers {
  alignas(64) float values[2][kStateBlock];
};

/// Updates kVectors * Lanes(d) elements at a time: two vectors of 16-bit numbers make a whole one.
/// REQUIRES: no run crosses a multiple of 2^32 elements.
template <class Formula, StateType kState, ParameterType kParameter, class D, std::size_t kVectors>
class Updater {
 public:
  using V = hn::Vec<D>;
  static constexpr std::size_t kElements = kVectors * hn::MaxLanes(D());

  HWY_INLINE Updater(const KernelSpec& spec, const KernelArgs& args, BlockBuffers& buffers)
      : gradient_type_(spec.gradient),
        copy_type_(spec.copy),
        args_(args),
        buffers_(buffers),
        coefficients_(args.scalars),
        keys_(MakeWordKeys(args.key, args.element >> 32)) {}

  HWY_INLINE void UpdateAt(std::size_t i) {
    V p[kVectors], s[kVectors], t[kVectors];
    HWY_UNROLL(2)
    for (std::size_t k = 0; k < kVectors; ++k) {
      const std::size_t at = i + k * hn::MaxLanes(D());
      const V g = LoadScaledGradient(at);
      p[k] = LoadParameter(at);
      s[k] = LoadState<0>(at);
      t[k] = Formula::kStates > 1 ? LoadState<1>(at) : hn::Zero(D());
      Formula::Apply(coefficients_, g, p[k], s[k], t[k]);
    }
    Store(p, s, t, i);
  }

  /// Whether every gradient so far was.
  HWY_INLINE bool finite() const {
    const hn::RebindToSigned<D> di;
    const auto limit = static_cast<std::int32_t>(kInfinity);
    return hn::GetLane(hn::MaxOfLanes(di, largest_)) < limit;
  }

 private:
  static constexpr bool kRounds = kState == StateType::kBf16 || kParameter == ParameterType::kBf16;

  HWY_INLINE V LoadScaledGradient(std::size_t i) {
    const D d;
    const V raw = LoadGradient(d, gradient_type_, args_.gradients, i);
    const V g = hn::Mul(raw, coefficients_.grad_scale);
    largest_ = hn::Max(largest_, hn::BitCast(hn::RebindToSigned<D>(), hn::Abs(g)));
    return g;
  }

  HWY_INLINE V LoadParameter(std::size_t i) const {
    if constexpr (kParameter == ParameterType::kBf16) return LoadBf16(D(), args_.parameters, i);
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

  HWY_INLINE void Store(const V (&p)[kVectors],
                        const V (&s)[kVectors],
                        const V (&t)[kVectors],
                        std::size_t i) const {
    const hn::RebindToUnsigned<D> du;
    Bits<D> word[kVectors];
    HWY_UNROLL(2)
    for (std::size_t k = 0; k < kVectors; ++k) {
      const std::size_t at = i + k * hn::MaxLanes(D());
      const auto first = static_cast<std::uint32_t>((args_.element + at) & 0xffffffff);
      word[k] = kRounds ? RandomWord(du, hn::Iota(du, first), keys_.word) : hn::Zero(du);
    }
    StoreStates(s, t, word, i);
    StoreParameters(p, word, i);
  }

  HWY_INLINE void StoreStates(const V (&s)[kVectors],
                              const V (&t)[kVectors],
                              const Bits<D> (&word)[kVectors],
                              std::size_t i) const {
    const D d;
    const hn::RebindToUnsigned<D> du;
    if constexpr (kState == StateType::kBf16) {
      Bits<D> first[kVectors], second[kVectors];
      for (std::size_t k = 0; k < kVectors; ++k) {
        first[k] = RoundStochastically(d, s[k], hn::And(word[k], hn::Set(du, 0xffffu)));
        second[k] = RoundStochastically(d, t[k], hn::ShiftRight<16>(word[k]));
      }
      StoreUpperHalves(d, first, args_.states[0].values, i);
      if constexpr (Formula::kStates > 1) StoreUpperHalves(d, second, args_.states[1].values, i);
    } else {
      StoreFp32(s, Fp32State(0, i));
      if constexpr (Formula::kStates > 1) StoreFp32(t, Fp32State(1, i));
    }
  }

  HWY_INLINE void StoreParameters(const V (&p)[kVectors],
                                  const Bits<D> (&word)[kVectors],
                                  std::size_t i) const {
    const D d;
    if constexpr (kParameter == ParameterType::kBf16) {
      const hn::RebindToUnsigned<D> du;
      Bits<D> bits[kVectors];
      for (std::size_t k = 0; k < kVectors; ++k) {
        const auto next = NextWord(du, word[k], keys_.next);
        bits[k] = RoundStochastically(d, p[k], hn::And(next, hn::Set(du, 0xffffu)));
      }
      StoreUpperHalves(d, bits, args_.parameters, i);
    } else {
      StoreFp32(p, static_cast<float*>(args_.parameters) + i);
      StoreCopy(d, copy_type_, p, args_.copy, i);
    }
  }

  static HWY_INLINE void StoreFp32(const V (&values)[kVectors], float* to) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      hn::StoreU(values[k], D(), to + k * hn::MaxLanes(D()));
    }
  }

  HWY_INLINE float* Fp32State(int index, std::size_t i) const {
    if constexpr (kState == StateType::k8Bit) return buffers_.values[index] + i % kStateBlock;
    return static_cast<float*>(args_.states[index].values) + i;
  }

  const GradientType gradient_type_;
  const CopyType copy_type_;
  const KernelArgs args_;
  BlockBuffers& buffers_;
  const Coefficients<D> coefficients_;
  const WordKeys keys_;
  hn::Vec<hn::RebindToSigned<D>> largest_ = hn::Zero(hn::RebindToSigned<D>());
};

/// Updates [begin, end) of a run, as far as whole vectors go; where it stopped.
template <class U>
HWY_INLINE std::size_t UpdateVectors(U& updater, std::size_t begin, std::size_t end) {
  for (; begin + U::kElements <= end; begin += U::kElements) updater.UpdateAt(begin);
  return begin;
}

/// The kernels of one formula and its types of parameter and state.
template <class Formula, StateType kState, ParameterType kParameter>
struct Kernels {
  using WideTag = hn::CappedTag<float, kStateBlock>;
  static constexpr std::size_t kVectors = hn::MaxLanes(WideTag()) > 1 ? 2 : 1;
  using Wide = Updater<Formula, kState, kParameter, WideTag, kVectors>;
  using One = Updater<Formula, kState, kParameter, hn::CappedTag<float, 1>, 1>;
  static_assert(kStateBlock % Wide::kElements == 0);

  /// What is left of a run after its last whole vector.
  static HWY_NOINLINE bool UpdateRest(const KernelSpec& spec,
                                      const KernelArgs& args,
                                      BlockBuffers& buffers,
                                      std::size_t begin) {
    One updater(spec, args, buffers);
    UpdateVectors(updater, begin, args.count);
    return updater.finite();
  }

  static bool Update(const KernelSpec& spec, const KernelArgs& args) {
    BlockBuffers buffers;
    Wide updater(spec, args, buffers);
    const std::size_t done = UpdateVectors(updater, 0, args.count);
    const bool rest = done == args.count || UpdateRest(spec, args, buffers, done);
    return updater.finite() && rest;
  }

  static bool UpdateBlocks(const KernelSpec& spec, const KernelArgs& args) {
    BlockBuffers buffers;
    Wide updater(spec, args, buffers);
    bool finite = true;
    for (std::size_t begin = 0; begin < args.count; begin += kStateBlock) {
      const std::size_t end = std::min(begin + kStateBlock, args.count);
      const std::size_t done = UpdateVectors(updater, begin, end);
      if (done < end) finite = UpdateRest(spec, args, buffers, done);
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
