#include "runtime/optim/step/pieces.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace sluice::optim {

Pieces::Pieces(std::vector<std::span<std::byte>> pieces, std::size_t element_bytes)
    : pieces_(std::move(pieces)), element_bytes_(element_bytes) {}

Pieces::Pieces(std::span<std::byte> bytes, std::size_t element_bytes)
    : pieces_{bytes}, element_bytes_(element_bytes) {}

Pieces::PieceOffset Pieces::Find(std::size_t element) const {
  PieceOffset place{.offset = element * element_bytes_};
  while (place.piece < pieces_.size() && place.offset >= pieces_[place.piece].size()) {
    place.offset -= pieces_[place.piece++].size();
  }
  SLUICE_CHECK(place.piece < pieces_.size(), "an update stays within its pages");
  return place;
}

std::size_t Pieces::Together(std::size_t element) const {
  const PieceOffset place = Find(element);
  return (pieces_[place.piece].size() - place.offset) / element_bytes_;
}

std::byte* Pieces::At(std::size_t element) const {
  const PieceOffset place = Find(element);
  return pieces_[place.piece].data() + place.offset;
}

void Pieces::CopyOut(std::size_t element, std::size_t count, std::byte* to) const {
  while (count > 0) {
    const std::size_t run = std::min(count, Together(element));
    std::memcpy(to, At(element), run * element_bytes_);
    to += run * element_bytes_;
    element += run;
    count -= run;
  }
}

void Pieces::CopyIn(std::size_t element, std::size_t count, const std::byte* from) const {
  while (count > 0) {
    const std::size_t run = std::min(count, Together(element));
    std::memcpy(At(element), from, run * element_bytes_);
    from += run * element_bytes_;
    element += run;
    count -= run;
  }
}

}  // namespace sluice::optim
