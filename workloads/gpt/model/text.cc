#include "workloads/gpt/model/text.h"

#include <algorithm>

namespace sluice::gpt {

void Text::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    if (size_ % kChunkBytes == 0) chunks_.emplace_back().reserve(kChunkBytes);
    Chunk& chunk = chunks_.back();
    const std::size_t count = std::min(bytes.size(), kChunkBytes - chunk.size());
    chunk.insert(chunk.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes.remove_prefix(count);
    size_ += count;
  }
}

void Text::CopyTo(std::size_t offset, std::span<std::uint8_t> to) const {
  while (!to.empty()) {
    const std::span<const std::uint8_t> rest =
        std::span(chunks_[offset / kChunkBytes]).subspan(offset % kChunkBytes);
    const std::size_t count = std::min(to.size(), rest.size());
    std::copy_n(rest.begin(), count, to.begin());
    to = to.subspan(count);
    offset += count;
  }
}

}  // namespace sluice::gpt
