#include "bench/optim/byte_loop.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/optim/byte_loop.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "runtime/optim/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<std::uint8_t, kByteLoopElements>;

/// The lowest bit of every element.
HWY_INLINE hn::Vec<Tag> LowestBits(std::size_t element_bytes) {
  const Tag d;
  const hn::Repartition<std::uint16_t, Tag> d16;
  const hn::Repartition<std::uint32_t, Tag> d32;
  if (element_bytes == 1) return hn::Set(d, std::uint8_t{1});
  if (element_bytes == 2) return hn::BitCast(d, hn::Set(d16, std::uint16_t{1}));
  return hn::BitCast(d, hn::Set(d32, 1u));
}

/// Adds up a stretch of a stream, and writes it back with other bits if it is written.
HWY_INLINE hn::Vec<Tag> MoveStretch(hn::Vec<Tag> sum, const ByteStream& stream, std::size_t begin) {
  const Tag d;
  const auto flipped = LowestBits(stream.element_bytes);
  const std::size_t bytes = kByteLoopElements * stream.element_bytes;
  auto* const values = reinterpret_cast<std::uint8_t*>(stream.data) + begin * stream.element_bytes;
  for (std::size_t i = 0; i < bytes; i += hn::Lanes(d)) {
    // The kernels prefetch the same way. If memory is fast, the loop gains up to a tenth by it.
    hwy::Prefetch(values + i + optim::kBytesAhead);
    const auto value = hn::LoadU(d, values + i);
    sum = hn::Add(sum, value);
    if (stream.writes) hn::StoreU(hn::Xor(value, flipped), d, values + i);
  }
  return sum;
}

unsigned Move(const ByteStream* streams, std::size_t count, std::size_t begin, std::size_t end) {
  const Tag d;
  auto sum = hn::Zero(d);
  for (std::size_t at = begin; at < end; at += kByteLoopElements) {
    for (std::size_t k = 0; k < count; ++k) sum = MoveStretch(sum, streams[k], at);
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
