#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/device/cuda/cuda_api.h"

namespace sluice::testing {

/// The calls of CudaApi that can fail, in its order.
enum class FakeEntry {
  kCountDevices,
  kDescribeDevice,
  kRetainContext,
  kReleaseContext,
  kPushContext,
  kPopContext,
  kFreeMemory,
  kExchangeCaptureMode,
  kCreateStream,
  kDestroyStream,
  kSynchronizeStream,
  kWaitEvent,
  kIsCapturing,
  kCreateEvent,
  kDestroyEvent,
  kRecordEvent,
  kQueryEvent,
  kCopyIn,
  kCopyOut,
  kCopyBatch,
  kFill,
  kRegisterHost,
  kUnregisterHost,
  kIsRegistered,
  kCreateMemory,
  kReleaseMemory,
  kReserveAddresses,
  kFreeAddresses,
  kMapMemory,
  kUnmapMemory,
  kAllowAccess,
};
inline constexpr int kFakeEntries = static_cast<int>(FakeEntry::kAllowAccess) + 1;

/// "kCopyIn" is "CopyIn".
std::string FakeEntryName(FakeEntry entry);

/// One call that fails without doing anything.
struct FakeInjection {
  std::optional<FakeEntry> entry;  ///< any call if empty
  std::uint64_t nth = 1;           ///< 1 is the next call
  device::CudaCode code = device::kCudaInvalidValue;
  bool sticky = false;  ///< the error ends every context: all later calls fail with it
};

/// Counts calls and picks the one that fails. Threads: any; no order comes from it.
class FakeCalls {
 public:
  /// Counts a call; true if it must fail with `injection`.
  bool Count(FakeEntry entry, FakeInjection* injection);

  void Inject(const FakeInjection& injection);
  /// The call that met the injection, if one did.
  std::optional<FakeEntry> injected() const;
  std::uint64_t calls(FakeEntry entry) const;
  std::uint64_t calls() const;

 private:
  static constexpr int kNone = -1;

  std::array<std::atomic<std::uint64_t>, kFakeEntries> calls_{};
  std::atomic<std::int64_t> left_{0};  ///< calls until the one that fails; 0 for none
  std::atomic<int> entry_{kNone};
  std::atomic<int> code_{device::kCudaSuccess};
  std::atomic<bool> sticky_{false};
  std::atomic<int> injected_{kNone};
};

}  // namespace sluice::testing
