#include "bench/optim/byte_loop.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/optim/byte_loop.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<std::uint8_t, kByteLoopElements>;

/// Adds up a stretch of a stream, and writes it back if `writes`.
HWY_INLINE hn::Vec<Tag> MoveStretch(hn::Vec<Tag> sum,
                                    std::byte* data,
                                    std::size_t bytes,
                                    bool writes) {
  const Tag d;
  auto* const values = reinterpret_cast<std::uint8_t*>(data);
  for (std::size_t i = 0; i < bytes; i += hn::Lanes(d)) {
    const auto value = hn::LoadU(d, values + i);
    sum = hn::Add(sum, value);
    if (writes) hn::StoreU(value, d, values + i);
  }
  return sum;
}

unsigned Move(const ByteStream* streams, std::size_t count, std::size_t begin, std::size_t end) {
  const Tag d;
  auto sum = hn::Zero(d);
  for (std::size_t at = begin; at < end; at += kByteLoopElements) {
    for (std::size_t k = 0; k < count; ++k) {
      const ByteStream& stream = streams[k];
      const std::size_t bytes = kByteLoopElements * stream.element_bytes;
      sum = MoveStretch(sum, stream.data + at * stream.element_bytes, bytes, stream.writes);
    }
  }
  return hn::GetLane(sum);
}

}  // namespace sluice::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace sluice::bench {

HWY_EXPORT(Move);

unsigned MoveBytes(std::span<const ByteStream> streams, std::size_t begin, std::size_t end) {
  return HWY_DYNAMIC_DISPATCH(Move)(streams.data(), streams.size(), begin, end);
}

}  // namespace sluice::bench

#endif  // HWY_ONCE
