// Lookups of work and calls in a FakeAddressSpace, without its lock.

#include <algorithm>
#include <cstdint>

#include "tests/support/cuda/gpu/fake_memory.h"

namespace sluice::testing {

namespace {

// Accesses that ThreadSanitizer sees. Two pieces of work of which one writes are a race unless a
// stream, an event or the host puts them in order.
void TouchMemory(FakeMemory& memory, FakeUse use) {
  volatile int* touches = &memory.touches;
  const int before = *touches;
  if (use == FakeUse::kWrite) {
    *touches = before + 1;
  }
}

void TouchMapping(const FakeMapping& mapping) {
  const volatile int* uses = &mapping.uses;
  [[maybe_unused]] const int seen = *uses;
}

}  // namespace

std::byte* FakeAddressSpace::FirstPage() const {
  const auto begin = reinterpret_cast<std::uintptr_t>(begin_);
  return begin_ + (options_.granularity - begin % options_.granularity) % options_.granularity;
}

std::uint64_t FakeAddressSpace::PageOf(const std::byte* address) const {
  return static_cast<std::uint64_t>(address - FirstPage()) / options_.granularity;
}

bool FakeAddressSpace::Contains(const std::byte* address) const {
  return address >= FirstPage() && address < FirstPage() + options_.pages * options_.granularity;
}

bool FakeAddressSpace::IsWhole(const std::byte* address, std::uint64_t bytes) const {
  return bytes > 0 && bytes % options_.granularity == 0 && Contains(address) &&
         Contains(address + bytes - 1) &&
         static_cast<std::uint64_t>(address - FirstPage()) % options_.granularity == 0;
}

bool FakeAddressSpace::WholeMappings(const std::byte* address,
                                     std::uint64_t bytes,
                                     std::vector<FakeMapping*>* found) const {
  if (!IsWhole(address, bytes)) {
    return false;
  }
  const std::byte* end = address + bytes;
  while (address < end) {
    FakeMapping* mapping = table_[PageOf(address)].load(std::memory_order_acquire);
    if (mapping == nullptr || mapping->address != address ||
        address + mapping->memory->bytes > end) {
      return false;
    }
    found->push_back(mapping);
    address += mapping->memory->bytes;
  }
  return true;
}

bool FakeAddressSpace::IsMapped(const std::byte* address, std::uint64_t bytes) const {
  if (bytes == 0 || !Contains(address) || !Contains(address + bytes - 1)) {
    return false;
  }
  for (std::uint64_t page = PageOf(address); page <= PageOf(address + bytes - 1); ++page) {
    if (table_[page].load(std::memory_order_relaxed) == nullptr) {
      return false;
    }
  }
  return true;
}

std::vector<FakePiece> FakeAddressSpace::Translate(const std::byte* address,
                                                   std::uint64_t bytes,
                                                   int ordinal,
                                                   FakeUse use) const {
  std::vector<FakePiece> pieces;
  const std::byte* end = address + bytes;
  if (!Contains(address) || !Contains(end - 1)) {
    return {};
  }
  while (address < end) {
    FakeMapping* mapping = table_[PageOf(address)].load(std::memory_order_acquire);
    if (mapping == nullptr ||
        ((mapping->devices.load(std::memory_order_acquire) >> static_cast<unsigned>(ordinal)) &
         1U) == 0) {
      return {};
    }
    TouchMapping(*mapping);
    TouchMemory(*mapping->memory, use);
    const auto offset = static_cast<std::uint64_t>(address - mapping->address);
    const std::uint64_t count =
        std::min(static_cast<std::uint64_t>(end - address), mapping->memory->bytes - offset);
    pieces.push_back({mapping, mapping->memory->storage + offset, count});
    address += count;
  }
  return pieces;
}

bool FakeAddressSpace::StillThere(const std::vector<FakePiece>& pieces) const {
  return std::all_of(pieces.begin(), pieces.end(), [&](const FakePiece& piece) {
    return table_[PageOf(piece.mapping->address)].load(std::memory_order_relaxed) == piece.mapping;
  });
}

}  // namespace sluice::testing
