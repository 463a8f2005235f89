#include "tests/support/cuda/fake_calls.h"

namespace sluice::testing {

std::string FakeEntryName(FakeEntry entry) {
  static constexpr std::array<const char*, kFakeEntries> kNames = {
      "CountDevices", "DescribeDevice", "RetainContext",     "ReleaseContext",
      "PushContext",  "PopContext",     "FreeMemory",        "ExchangeCaptureMode",
      "CreateStream", "DestroyStream",  "SynchronizeStream", "WaitEvent",
      "IsCapturing",  "CreateEvent",    "DestroyEvent",      "RecordEvent",
      "QueryEvent",   "CopyIn",         "CopyOut",           "CopyBatch",
      "Fill",         "RegisterHost",   "UnregisterHost",    "IsRegistered",
      "CreateMemory", "ReleaseMemory",  "ReserveAddresses",  "FreeAddresses",
      "MapMemory",    "UnmapMemory",    "AllowAccess"};
  return kNames.at(static_cast<std::size_t>(entry));
}

bool FakeCalls::Count(FakeEntry entry, FakeInjection* injection) {
  const int number = static_cast<int>(entry);
  calls_.at(static_cast<std::size_t>(number)).fetch_add(1, std::memory_order_relaxed);
  if (left_.load(std::memory_order_acquire) <= 0) {
    return false;
  }
  const int wanted = entry_.load(std::memory_order_relaxed);
  if ((wanted != kNone && wanted != number) || left_.fetch_sub(1, std::memory_order_relaxed) != 1) {
    return false;
  }
  injected_.store(number, std::memory_order_relaxed);
  injection->code = code_.load(std::memory_order_relaxed);
  injection->sticky = sticky_.load(std::memory_order_relaxed);
  return true;
}

void FakeCalls::Inject(const FakeInjection& injection) {
  left_.store(0, std::memory_order_relaxed);
  entry_.store(injection.entry ? static_cast<int>(*injection.entry) : kNone,
               std::memory_order_relaxed);
  code_.store(injection.code, std::memory_order_relaxed);
  sticky_.store(injection.sticky, std::memory_order_relaxed);
  injected_.store(kNone, std::memory_order_relaxed);
  left_.store(static_cast<std::int64_t>(injection.nth), std::memory_order_release);
}

std::optional<FakeEntry> FakeCalls::injected() const {
  const int number = injected_.load(std::memory_order_relaxed);
  return number == kNone ? std::nullopt : std::optional(static_cast<FakeEntry>(number));
}

std::uint64_t FakeCalls::calls(FakeEntry entry) const {
  return calls_.at(static_cast<std::size_t>(entry)).load(std::memory_order_relaxed);
}

std::uint64_t FakeCalls::calls() const {
  std::uint64_t all = 0;
  for (const auto& count : calls_) {
    all += count.load(std::memory_order_relaxed);
  }
  return all;
}

}  // namespace sluice::testing
