#include "tests/support/cuda/gpu/fake_registrations.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace sluice::testing {

using device::CudaCode;

namespace {

constexpr std::uintptr_t kHostPageBytes = 4096;

std::uintptr_t Number(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

}  // namespace

FakeRegistrations::FakeRegistrations() {
  const base::MutexLock lock(mutex_);
  Publish({});
}

void FakeRegistrations::Publish(Table table) {
  now_.store(&tables_.emplace_back(std::move(table)), std::memory_order_release);
}

CudaCode FakeRegistrations::Add(const std::byte* address, std::uint64_t bytes) {
  if (address == nullptr || bytes == 0) {
    return device::kCudaInvalidValue;
  }
  const std::uintptr_t at = Number(address);
  const Range range{.address = at,
                    .begin = at / kHostPageBytes * kHostPageBytes,
                    .end = (at + bytes + kHostPageBytes - 1) / kHostPageBytes * kHostPageBytes};
  const base::MutexLock lock(mutex_);
  Table table = Now();
  for (const Range& other : table) {
    if (range.begin < other.end && other.begin < range.end) {
      return device::kCudaAlreadyRegistered;
    }
  }
  table.push_back(range);
  Publish(std::move(table));
  return device::kCudaSuccess;
}

bool FakeRegistrations::Has(const std::byte* address) const {
  return std::any_of(Now().begin(), Now().end(), [&](const Range& range) {
    return range.address == Number(address);
  });
}

CudaCode FakeRegistrations::Remove(const std::byte* address) {
  const base::MutexLock lock(mutex_);
  Table table = Now();
  if (std::erase_if(table, [&](const Range& range) { return range.address == Number(address); }) ==
      0) {
    return device::kCudaNotRegistered;
  }
  Publish(std::move(table));
  return device::kCudaSuccess;
}

FakeRegistrations::Cover FakeRegistrations::Find(const std::byte* address,
                                                 std::uint64_t bytes) const {
  const std::uintptr_t begin = Number(address);
  const std::uintptr_t end = begin + bytes;
  for (const Range& range : Now()) {
    if (begin < range.end && range.begin < end) {
      return range.begin <= begin && end <= range.end ? Cover::kWhole : Cover::kPart;
    }
  }
  return Cover::kNone;
}

std::vector<std::string> FakeRegistrations::Leaks() const {
  std::vector<std::string> leaks;
  for (const Range& range : Now()) {
    leaks.push_back(
        fmt::format("host memory at {:#x}, {} bytes", range.begin, range.end - range.begin));
  }
  return leaks;
}

}  // namespace sluice::testing
