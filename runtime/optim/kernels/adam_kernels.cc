#include "runtime/optim/kernels/kernel_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/optim/kernels/adam_kernels.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/highway.h"
#include "runtime/optim/kernels/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

UpdateFn FindAdamHere(const KernelSpec& spec) {
  return spec.optimizer == OptimizerKind::kAdam ? FindByTypes<Adam>(spec)
                                                : FindByTypes<AdamW>(spec);
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace sluice::optim {

UpdateFn FindAdam(const KernelSpec& spec, std::int64_t target) {
#if HWY_TARGETS & HWY_AVX3
  if (target == HWY_AVX3) return N_AVX3::FindAdamHere(spec);
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target == HWY_AVX2) return N_AVX2::FindAdamHere(spec);
#endif
#if HWY_TARGETS & HWY_SSE4
  if (target == HWY_SSE4) return N_SSE4::FindAdamHere(spec);
#endif
#if HWY_TARGETS & HWY_SCALAR
  if (target == HWY_SCALAR) return N_SCALAR::FindAdamHere(spec);
#endif
  return nullptr;
}

}  // namespace sluice::optim

#endif  // HWY_ONCE
