#include <immintrin.h>

#include "bench/store/checksum_cost.h"

namespace sluice::bench {
namespace {

std::uint64_t SumWords(std::span<const std::uint64_t> words) {
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words) sum += word;
  return sum;
}

std::uint64_t SumSse2(std::span<const std::byte> data) {
  const auto* at = reinterpret_cast<const __m128i*>(data.data());
  const auto* const end = at + data.size() / sizeof(__m128i);
  __m128i a = _mm_setzero_si128();
  __m128i b = a;
  for (; at < end; at += 2) {
    a = _mm_add_epi64(a, _mm_load_si128(at));
    b = _mm_add_epi64(b, _mm_load_si128(at + 1));
  }
  alignas(16) std::uint64_t lanes[2];
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes), _mm_add_epi64(a, b));
  return SumWords(lanes);
}

__attribute__((target("avx2"))) std::uint64_t SumAvx2(std::span<const std::byte> data) {
  const auto* at = reinterpret_cast<const __m256i*>(data.data());
  const auto* const end = at + data.size() / sizeof(__m256i);
  __m256i a = _mm256_setzero_si256();
  __m256i b = a;
  __m256i c = a;
  __m256i d = a;
  for (; at < end; at += 4) {
    a = _mm256_add_epi64(a, _mm256_load_si256(at));
    b = _mm256_add_epi64(b, _mm256_load_si256(at + 1));
    c = _mm256_add_epi64(c, _mm256_load_si256(at + 2));
    d = _mm256_add_epi64(d, _mm256_load_si256(at + 3));
  }
  alignas(32) std::uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes),
                     _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d)));
  return SumWords(lanes);
}

__attribute__((target("avx512f"))) std::uint64_t SumAvx512(std::span<const std::byte> data) {
  const auto* at = reinterpret_cast<const __m512i*>(data.data());
  const auto* const end = at + data.size() / sizeof(__m512i);
  __m512i a = _mm512_setzero_si512();
  __m512i b = a;
  __m512i c = a;
  __m512i d = a;
  for (; at < end; at += 4) {
    a = _mm512_add_epi64(a, _mm512_load_si512(at));
    b = _mm512_add_epi64(b, _mm512_load_si512(at + 1));
    c = _mm512_add_epi64(c, _mm512_load_si512(at + 2));
    d = _mm512_add_epi64(d, _mm512_load_si512(at + 3));
  }
  alignas(64) std::uint64_t lanes[8];
  _mm512_store_si512(lanes, _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d)));
  return SumWords(lanes);
}

}  // namespace

std::vector<ReadPass> ReadPasses() {
  std::vector<ReadPass> passes;
  if (__builtin_cpu_supports("avx2")) passes.push_back({"avx2", SumAvx2});
  if (__builtin_cpu_supports("avx512f")) passes.push_back({"avx512", SumAvx512});
  if (passes.empty()) passes.push_back({"sse2", SumSse2});
  return passes;
}

}  // namespace sluice::bench
