#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::gpt {

/// Bytes of text of any length that never ask for one large piece of memory.
/// Threads: const methods from any.
class Text {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
  using Chunk = std::vector<std::uint8_t>;

  void Append(std::string_view bytes);

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// REQUIRES: offset < size().
  std::uint8_t At(std::size_t offset) const {
    return chunks_[offset / kChunkBytes][offset % kChunkBytes];
  }
  /// Copies the bytes that begin at `offset`. REQUIRES: offset + to.size() <= size().
  void CopyTo(std::size_t offset, std::span<std::uint8_t> to) const;
  /// The whole text in order: pieces of kChunkBytes, and the rest.
  std::span<const Chunk> chunks() const { return chunks_; }

 private:
  std::vector<Chunk> chunks_;
  std::size_t size_ = 0;
};

}  // namespace sluice::gpt
