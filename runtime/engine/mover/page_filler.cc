#include "runtime/engine/mover/page_filler.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"

namespace sluice::engine {
namespace {

absl::Status FillRange(core::FillKind kind,
                       const Segment& segment,
                       const TensorInfo& tensor,
                       ByteRange range,
                       std::span<std::byte> out) {
  if (kind == core::FillKind::kFile) {
    SLUICE_CHECK(segment.parts().file != nullptr, "only a segment with a file is read from one");
    return segment.parts().file->Read(tensor.offset + range.offset, out);
  }
  SLUICE_CHECK(tensor.spec.reproduce != nullptr, "only a reproducible tensor is reproduced");
  return base::Annotate(tensor.spec.reproduce(range, out),
                        fmt::format("the reproduce callback of tensor '{}'", tensor.spec.name));
}

/// Fills a page of a segment that is joined, from the parts of its home that lie in it.
absl::Status FillJoined(const Segment& segment,
                        std::uint64_t page_begin,
                        std::span<std::byte> frame) {
  const std::uint64_t page_end = page_begin + frame.size();
  std::uint64_t begin = 0;  // first byte of the part within the segment
  for (const HomePart& part : segment.parts().joined) {
    const std::uint64_t from = std::max(begin, page_begin);
    const std::uint64_t to = std::min(begin + part.bytes, page_end);
    if (from < to) {
      SLUICE_RETURN_IF_ERROR(part.file->ReadPart(part.offset + from - begin,
                                                 frame.subspan(from - page_begin, to - from)));
    }
    begin += part.bytes;
  }
  const std::uint64_t filled = std::clamp(begin, page_begin, page_end) - page_begin;
  std::memset(frame.data() + filled, 0, frame.size() - filled);
  return absl::OkStatus();
}

}  // namespace

absl::Status FillPage(core::FillKind kind,
                      const Segment& segment,
                      PageIndex page,
                      std::span<std::byte> frame) {
  const std::uint64_t page_begin = segment.PageWithin(page) * segment.page_bytes();
  if (kind == core::FillKind::kFile && !segment.parts().joined.empty()) {
    return FillJoined(segment, page_begin, frame);
  }
  if (kind == core::FillKind::kFile && segment.parts().read_only) {
    return segment.parts().file->ReadPage(page_begin, frame);
  }
  std::memset(frame.data(), 0, frame.size());
  if (kind == core::FillKind::kZero) return absl::OkStatus();
  absl::Status status;
  segment.ForEachTensorIn(page, [&](const TensorInfo& tensor, ByteRange range) {
    if (!status.ok()) return;
    const std::uint64_t at = tensor.offset + range.offset - page_begin;
    status = FillRange(kind, segment, tensor, range, frame.subspan(at, range.bytes));
  });
  return status;
}

}  // namespace sluice::engine
