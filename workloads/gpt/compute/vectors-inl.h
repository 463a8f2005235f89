// Loops over arrays of floats, by whole vectors where they fit. Compiled once per target.

#if defined(SLUICE_GPT_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_GPT_VECTORS_INL_H_
#undef SLUICE_GPT_VECTORS_INL_H_
#else
#define SLUICE_GPT_VECTORS_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::gpt::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Full = hn::ScalableTag<float>;
using Single = hn::CappedTag<float, 1>;

/// Calls body(tag, i) for whole vectors from 0 on, then for the single elements that are left.
template <class Body>
HWY_INLINE void ForEach(std::size_t count, Body body) {
  const Full d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) body(d, i);
  for (; i < count; ++i) body(Single(), i);
}

/// The sum of term(tag, i) over all elements: whole vectors first, then what is left.
template <class Term>
HWY_INLINE float Sum(std::size_t count, Term term) {
  const Full d;
  auto sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) sum = hn::Add(sum, term(d, i));
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < count; ++i) total += hn::GetLane(term(Single(), i));
  return total;
}

HWY_INLINE float Max(std::size_t count, const float* x) {
  const Full d;
  auto best = hn::Set(d, x[0]);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) best = hn::Max(best, hn::LoadU(d, x + i));
  float total = hn::GetLane(hn::MaxOfLanes(d, best));
  for (; i < count; ++i) total = std::max(total, x[i]);
  return total;
}

}  // namespace sluice::gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
