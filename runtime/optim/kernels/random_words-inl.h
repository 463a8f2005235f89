// The random bits of stochastic rounding, as vectors. Compiled once per target.

#if defined(SLUICE_OPTIM_RANDOM_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPTIM_RANDOM_WORDS_INL_H_
#undef SLUICE_OPTIM_RANDOM_WORDS_INL_H_
#else
#define SLUICE_OPTIM_RANDOM_WORDS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "runtime/optim/kernels/number_types-inl.h"
#include "runtime/optim/kernels/rounding_key.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// Sources of the words of the given numbers, not yet random enough themselves.
template <class DU, class V>
HWY_INLINE V StartOfWords(DU du, V number, WordKeys::Pair key) {
  auto x = hn::Mul(hn::Xor(number, hn::Set(du, key.first)), hn::Set(du, 0x21f0aaadu));
  x = hn::Add(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(du, key.second));
  x = hn::Mul(x, hn::Set(du, 0x735a2d97u));
  return hn::Xor(x, hn::ShiftRight<15>(x));
}

/// The words that follow, for the number that is rounded next.
template <class DU, class V>
HWY_INLINE V NextWord(DU du, V word, std::uint32_t key) {
  const auto x = hn::Mul(hn::Xor(word, hn::Set(du, key)), hn::Set(du, 0x2c1b3c6du));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

/// Words for up to three numbers of an element, in the order in which they are rounded.
template <class D>
struct Words {
  Bits<D> of[3];
};

/// The words of these numbers, WordOf() of the elements: `kRoundings` of them.
template <int kRoundings, class D>
HWY_INLINE Words<D> DrawWords(D /*d*/, const WordKeys& keys, Bits<D> numbers) {
  const hn::RebindToUnsigned<D> du;
  Words<D> words;
  auto word = StartOfWords(du, numbers, keys.start);
  HWY_UNROLL(3)
  for (int k = 0; k < kRoundings; ++k) {
    word = NextWord(du, word, keys.words[k]);
    words.of[k] = word;
  }
  return words;
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
