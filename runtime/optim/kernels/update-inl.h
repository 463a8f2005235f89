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
#include "runtime/optim/kernels/block_codes-inl.h"
#include "runtime/optim/kernels/formulas-inl.h"
#include "runtime/optim/kernels/groups-inl.h"
#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/kernels/kernel_families.h"
#include "runtime/optim/kernels/updater-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// The kernels of one formula and its types of parameter and state.
template <class Formula, StateType kState, ParameterType kParameter>
struct Kernels {
#if HWY_TARGET == HWY_SCALAR
  using WideGroup = SingleGroup;
#else
  static constexpr bool kIsNarrow =
      kState == StateType::kBf16 && kParameter == ParameterType::kBf16;
  using WideGroup = std::conditional_t<kIsNarrow, AlternatingGroup, PairGroup>;
#endif
  using Wide = RunUpdater<Formula, kState, kParameter, WideGroup>;
  using One = RunUpdater<Formula, kState, kParameter, SingleGroup>;
  static_assert(kStateBlock % Wide::kElements == 0);

  /// Updates one element at a time. Returns whether all gradients were finite.
  static HWY_NOINLINE bool UpdateSingly(const KernelSpec& spec,
                                        const KernelArgs& args,
                                        BlockBuffers& buffers,
                                        std::size_t begin,
                                        std::size_t end) {
    One updater(spec, args, buffers);
    updater.Update(begin, end);
    return updater.finite();
  }

  static bool Update(const KernelSpec& spec, const KernelArgs& args) {
    BlockBuffers buffers;
    Wide updater(spec, args, buffers);
    std::size_t done = std::min<std::size_t>(args.element % 2, args.count);
    bool finite = done == 0 || UpdateSingly(spec, args, buffers, 0, done);
    done = updater.Update(done, args.count);
    finite &= done == args.count || UpdateSingly(spec, args, buffers, done, args.count);
    return updater.finite() && finite;
  }

  static bool UpdateBlocks(const KernelSpec& spec, const KernelArgs& args) {
    BlockBuffers buffers;
    Wide updater(spec, args, buffers);
    bool finite = true;
    for (std::size_t begin = 0; begin < args.count; begin += kStateBlock) {
      const std::size_t end = std::min(begin + kStateBlock, args.count);
      const std::size_t done = updater.Update(begin, end);
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
