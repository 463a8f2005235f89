#include "runtime/device/page_copy.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sluice::device {
namespace {

constexpr std::size_t kBlock = 4096;
constexpr std::size_t kBlocks = 4;  ///< side by side
constexpr std::size_t kLine = 64;

#if defined(__SSE2__)
constexpr std::size_t kAlignment = sizeof(__m128i);

void CopyLine(std::byte* target, const std::byte* source) {
  const auto* from = reinterpret_cast<const __m128i*>(source);
  auto* to = reinterpret_cast<__m128i*>(target);
  const __m128i a = _mm_loadu_si128(from);
  const __m128i b = _mm_loadu_si128(from + 1);
  const __m128i c = _mm_loadu_si128(from + 2);
  const __m128i d = _mm_loadu_si128(from + 3);
  _mm_stream_si128(to, a);
  _mm_stream_si128(to + 1, b);
  _mm_stream_si128(to + 2, c);
  _mm_stream_si128(to + 3, d);
}

/// Stores past the caches are ordered with those of other threads by nothing else.
void EndStream() { _mm_sfence(); }
#else
constexpr std::size_t kAlignment = 1;

void CopyLine(std::byte* target, const std::byte* source) { std::memcpy(target, source, kLine); }
void EndStream() {}
#endif

/// kBlocks blocks.
void CopyBlocks(std::byte* target, const std::byte* source) {
  for (std::size_t at = 0; at < kBlock; at += kLine) {
    for (std::size_t block = 0; block < kBlocks; ++block) {
      CopyLine(target + block * kBlock + at, source + block * kBlock + at);
    }
  }
}

}  // namespace

void CopyPage(std::span<std::byte> target, std::span<const std::byte> source) {
  SLUICE_CHECK(source.size() == target.size(), "a copy fills its target");
  std::size_t done = 0;
  if (reinterpret_cast<std::uintptr_t>(target.data()) % kAlignment == 0) {
    for (; source.size() - done >= kBlocks * kBlock; done += kBlocks * kBlock) {
      CopyBlocks(target.data() + done, source.data() + done);
    }
    EndStream();
  }
  if (done < source.size()) {
    std::memcpy(target.data() + done, source.data() + done, source.size() - done);
  }
}

}  // namespace sluice::device
