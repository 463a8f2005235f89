#include "tests/support/cuda/gpu/fake_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "fmt/format.h"

namespace sluice::testing {

using device::CudaCode;
using device::CudaMemory;
using device::kCudaInvalidValue;
using device::kCudaNotSupported;
using device::kCudaOutOfMemory;
using device::kCudaSuccess;

namespace {

constexpr CudaCode kInvalidDevice = 101;

std::byte* MapHost(std::uint64_t bytes, int protection) {
  void* address =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SLUICE_CHECK(address != MAP_FAILED, "the fake driver needs memory");
  return static_cast<std::byte*>(address);
}

}  // namespace

FakeAddressSpace::FakeAddressSpace(const Options& options)
    : options_(options),
      begin_(MapHost((options.pages + 1) * options.granularity, PROT_NONE)),
      table_(std::make_unique<Entry[]>(options.pages)),
      used_bytes_(static_cast<std::size_t>(options.devices), 0) {}

FakeAddressSpace::~FakeAddressSpace() {
  munmap(begin_, (options_.pages + 1) * options_.granularity);
  for (const auto& memory : memories_) {
    munmap(memory->storage, memory->bytes);
  }
}

CudaCode FakeAddressSpace::Create(int ordinal, std::uint64_t bytes, CudaMemory* memory) {
  if (ordinal < 0 || ordinal >= options_.devices) {
    return kInvalidDevice;
  }
  if (bytes == 0 || bytes % options_.granularity != 0) {
    return kCudaInvalidValue;
  }
  const base::MutexLock lock(mutex_);
  std::int64_t& used = used_bytes_[static_cast<std::size_t>(ordinal)];
  if (used + static_cast<std::int64_t>(bytes) > static_cast<std::int64_t>(options_.memory_bytes)) {
    return kCudaOutOfMemory;
  }
  used += static_cast<std::int64_t>(bytes);
  std::byte* storage = MapHost(bytes, PROT_READ | PROT_WRITE);
  if (options_.garbage) {
    std::memset(storage, 0xA5, bytes);
  }
  memories_.push_back(std::make_unique<FakeMemory>(
      FakeMemory{.ordinal = ordinal, .bytes = bytes, .storage = storage}));
  *memory = memories_.size();
  return kCudaSuccess;
}

FakeMemory* FakeAddressSpace::Find(CudaMemory memory) {
  if (memory == 0 || memory > memories_.size() || memories_[memory - 1]->released) {
    return nullptr;
  }
  return memories_[memory - 1].get();
}

void FakeAddressSpace::FreeIfUnused(FakeMemory& memory) {
  if (memory.released && memory.mappings == 0) {
    madvise(memory.storage, memory.bytes, MADV_DONTNEED);
    used_bytes_[static_cast<std::size_t>(memory.ordinal)] -=
        static_cast<std::int64_t>(memory.bytes);
  }
}

CudaCode FakeAddressSpace::Release(CudaMemory memory) {
  const base::MutexLock lock(mutex_);
  FakeMemory* found = Find(memory);
  if (found == nullptr) {
    return kCudaInvalidValue;
  }
  found->released = true;
  FreeIfUnused(*found);
  return kCudaSuccess;
}

CudaCode FakeAddressSpace::Reserve(std::uint64_t bytes, std::byte** address) {
  if (bytes == 0 || bytes % options_.granularity != 0) {
    return kCudaInvalidValue;
  }
  const std::uint64_t pages = bytes / options_.granularity;
  const base::MutexLock lock(mutex_);
  std::uint64_t begin = 0;
  for (const auto& [at, taken] : reserved_) {
    if (at - begin >= pages) {
      break;
    }
    begin = at + taken;
  }
  if (begin + pages > options_.pages) {
    return kCudaOutOfMemory;
  }
  reserved_[begin] = pages;
  *address = FirstPage() + begin * options_.granularity;
  return kCudaSuccess;
}

CudaCode FakeAddressSpace::Free(std::byte* address, std::uint64_t bytes) {
  const base::MutexLock lock(mutex_);
  if (!IsWhole(address, bytes)) {
    return kCudaInvalidValue;
  }
  const std::uint64_t begin = PageOf(address);
  const std::uint64_t pages = bytes / options_.granularity;
  const auto found = reserved_.find(begin);
  if (found == reserved_.end() || found->second != pages ||
      std::any_of(&table_[begin], &table_[begin] + pages, [](const Entry& entry) {
        return entry.load(std::memory_order_relaxed) != nullptr;
      })) {
    return kCudaInvalidValue;
  }
  reserved_.erase(found);
  return kCudaSuccess;
}

bool FakeAddressSpace::IsReserved(const std::byte* address, std::uint64_t bytes) const {
  const std::uint64_t begin = PageOf(address);
  const auto after = reserved_.upper_bound(begin);
  if (after == reserved_.begin()) {
    return false;
  }
  const auto& [at, pages] = *std::prev(after);
  return begin + bytes / options_.granularity <= at + pages;
}

CudaCode FakeAddressSpace::Map(std::byte* address, std::uint64_t bytes, CudaMemory memory) {
  const base::MutexLock lock(mutex_);
  FakeMemory* found = Find(memory);
  if (found == nullptr || !IsWhole(address, bytes) || !IsReserved(address, bytes)) {
    return kCudaInvalidValue;
  }
  if (bytes != found->bytes) {
    return bytes < found->bytes ? kCudaNotSupported : kCudaInvalidValue;
  }
  const std::uint64_t begin = PageOf(address);
  const std::uint64_t pages = bytes / options_.granularity;
  for (std::uint64_t page = begin; page < begin + pages; ++page) {
    if (table_[page].load(std::memory_order_relaxed) != nullptr) {
      return kCudaInvalidValue;
    }
  }
  mappings_.push_back(std::make_unique<FakeMapping>());
  FakeMapping* mapping = mappings_.back().get();
  mapping->memory = found;
  mapping->address = address;
  ++found->mappings;
  for (std::uint64_t page = begin; page < begin + pages; ++page) {
    table_[page].store(mapping, std::memory_order_release);
  }
  return kCudaSuccess;
}

CudaCode FakeAddressSpace::Unmap(std::byte* address, std::uint64_t bytes) {
  const base::MutexLock lock(mutex_);
  std::vector<FakeMapping*> found;
  if (!WholeMappings(address, bytes, &found)) {
    return kCudaInvalidValue;
  }
  for (FakeMapping* mapping : found) {
    const std::uint64_t begin = PageOf(mapping->address);
    const std::uint64_t pages = mapping->memory->bytes / options_.granularity;
    for (std::uint64_t page = begin; page < begin + pages; ++page) {
      table_[page].store(nullptr, std::memory_order_release);
    }
    ++mapping->uses;
    --mapping->memory->mappings;
    FreeIfUnused(*mapping->memory);
  }
  return kCudaSuccess;
}

CudaCode FakeAddressSpace::Allow(std::byte* address, std::uint64_t bytes, int ordinal) {
  if (ordinal < 0 || ordinal >= options_.devices) {
    return kInvalidDevice;
  }
  const base::MutexLock lock(mutex_);
  std::vector<FakeMapping*> found;
  if (!WholeMappings(address, bytes, &found)) {
    return kCudaInvalidValue;
  }
  for (FakeMapping* mapping : found) {
    mapping->devices.fetch_or(1U << static_cast<unsigned>(ordinal), std::memory_order_release);
  }
  return kCudaSuccess;
}

std::uint64_t FakeAddressSpace::UsedBytes(int ordinal) {
  const base::MutexLock lock(mutex_);
  return static_cast<std::uint64_t>(used_bytes_.at(static_cast<std::size_t>(ordinal)));
}

void FakeAddressSpace::TakeAway(int ordinal, std::int64_t bytes) {
  const base::MutexLock lock(mutex_);
  used_bytes_.at(static_cast<std::size_t>(ordinal)) += bytes;
}

std::vector<std::string> FakeAddressSpace::Leaks() {
  const base::MutexLock lock(mutex_);
  std::vector<std::string> leaks;
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    if (!memories_[i]->released) {
      leaks.push_back(fmt::format("memory {} of {} bytes", i + 1, memories_[i]->bytes));
    }
    if (memories_[i]->mappings > 0) {
      leaks.push_back(fmt::format("memory {} mapped {} times", i + 1, memories_[i]->mappings));
    }
  }
  for (const auto& [begin, pages] : reserved_) {
    leaks.push_back(fmt::format(
        "addresses at {}, {} pages", fmt::ptr(FirstPage() + begin * options_.granularity), pages));
  }
  return leaks;
}

}  // namespace sluice::testing
