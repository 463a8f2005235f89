#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice::device {

/// Result of a call, with the driver's numbers (CUresult). An error of work that runs later may
/// come back from any later call.
using CudaCode = int;
inline constexpr CudaCode kCudaSuccess = 0;
inline constexpr CudaCode kCudaInvalidValue = 1;
inline constexpr CudaCode kCudaOutOfMemory = 2;
inline constexpr CudaCode kCudaDeinitialized = 4;
inline constexpr CudaCode kCudaNoDevice = 100;
inline constexpr CudaCode kCudaInvalidContext = 201;
inline constexpr CudaCode kCudaInvalidHandle = 400;
inline constexpr CudaCode kCudaNotReady = 600;
inline constexpr CudaCode kCudaIllegalAddress = 700;
inline constexpr CudaCode kCudaAlreadyRegistered = 712;
inline constexpr CudaCode kCudaNotRegistered = 713;
inline constexpr CudaCode kCudaNotSupported = 801;
inline constexpr CudaCode kCudaCaptureUnsupported = 900;
inline constexpr CudaCode kCudaCaptureInvalidated = 901;

// Handles of the driver, opaque here.
using CudaContext = struct CudaContextTag*;
using CudaStream = struct CudaStreamTag*;  ///< a user's cudaStream_t is one of these
using CudaEvent = struct CudaEventTag*;
using CudaMemory = std::uint64_t;  ///< physical memory, mapped and unmapped whole

/// Streams that need no creation: the legacy default stream, and the calling thread's own.
inline const CudaStream kCudaLegacyStream = nullptr;
inline CudaStream CudaPerThreadStream() {
  return reinterpret_cast<CudaStream>(std::uintptr_t{2});  // NOLINT: the driver's own number
}

/// Mode of a thread: the captures that forbid its calls. The numbers are the driver's
/// (CUstreamCaptureMode).
enum class CudaCaptureMode : int {
  kGlobal = 0,       ///< captures of its own, and global ones of others, forbid calls
  kThreadLocal = 1,  ///< captures of its own forbid calls
  kRelaxed = 2,      ///< calls are allowed
};

/// Facts of one GPU.
struct CudaDeviceFacts {
  std::string name;
  std::array<std::uint8_t, 16> uuid{};
  std::string pci_address;  ///< "0000:3b:00.0"
  int compute_major = 0;
  int compute_minor = 0;
  int driver_version = 0;  ///< newest CUDA version of the driver: 13000 for 13.0
  std::uint64_t memory_bytes = 0;
  std::uint64_t granularity = 0;  ///< smallest unit of CreateMemory and of mappings
  bool maps_memory = false;       ///< true if CreateMemory and its like work
  bool registers_memory = false;  ///< true if RegisterHost works
};

/// One copy between the device and the host, in the direction that the addresses say.
struct CudaCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::uint64_t bytes = 0;
};

/// Every call of CUDA that the CUDA device makes. Tests put a driver of their own here. Threads:
/// any; calls on streams, events and memory need a context that is current on the calling thread.
/// Addresses of host and device share one space.
class CudaApi {
 public:
  virtual ~CudaApi() = default;

  virtual std::string ErrorName(CudaCode code) const = 0;  ///< "CUDA_ERROR_OUT_OF_MEMORY"

  // Devices and contexts.
  virtual CudaCode CountDevices(int* count) = 0;
  virtual CudaCode DescribeDevice(int ordinal, CudaDeviceFacts* facts) = 0;
  /// Takes a share of the primary context; its flags stay as they are.
  virtual CudaCode RetainContext(int ordinal, CudaContext* context) = 0;
  virtual CudaCode ReleaseContext(int ordinal) = 0;
  /// Makes the context current on the calling thread, until PopContext brings back the one before.
  virtual CudaCode PushContext(CudaContext context) = 0;
  virtual CudaCode PopContext() = 0;
  virtual CudaCode FreeMemory(std::uint64_t* free_bytes, std::uint64_t* all_bytes) = 0;
  /// Gives the calling thread the mode, and writes the one before to *mode.
  virtual CudaCode ExchangeCaptureMode(CudaCaptureMode* mode) = 0;

  // Streams. Streams made here do not wait for the legacy default stream.
  virtual CudaCode CreateStream(CudaStream* stream) = 0;
  virtual CudaCode DestroyStream(CudaStream stream) = 0;
  virtual CudaCode SynchronizeStream(CudaStream stream) = 0;
  virtual CudaCode WaitEvent(CudaStream stream, CudaEvent event) = 0;
  virtual CudaCode IsCapturing(CudaStream stream, bool* capturing) = 0;

  // Events, without times.
  virtual CudaCode CreateEvent(CudaEvent* event) = 0;
  virtual CudaCode DestroyEvent(CudaEvent event) = 0;
  virtual CudaCode RecordEvent(CudaEvent event, CudaStream stream) = 0;
  /// Asks for an event. The answer is kCudaNotReady while work before the event's last record runs.
  virtual CudaCode QueryEvent(CudaEvent event) = 0;

  // Copies and fills. A copy from or to host memory that is not registered blocks its caller.
  virtual CudaCode CopyIn(const CudaCopy& copy, CudaStream stream) = 0;
  virtual CudaCode CopyOut(const CudaCopy& copy, CudaStream stream) = 0;
  /// Enqueues copies that run in any order among each other, after the stream's earlier work.
  /// Returns kCudaNotSupported where the driver lacks the call; then nothing was enqueued.
  virtual CudaCode CopyBatch(std::span<const CudaCopy> copies, CudaStream stream) = 0;
  virtual CudaCode Fill(std::byte* to,
                        std::uint8_t value,
                        std::uint64_t bytes,
                        CudaStream stream) = 0;

  // Host memory that copies reach without a stop. Unregistering waits for all running work.
  virtual CudaCode RegisterHost(std::byte* address, std::uint64_t bytes) = 0;
  virtual CudaCode UnregisterHost(std::byte* address) = 0;
  virtual CudaCode IsRegistered(const std::byte* address, bool* registered) = 0;

  // Physical memory and addresses. An address reads and writes after Map and AllowAccess. Neither
  // call waits for running work; unmapping memory that running work uses is a fault of that work.
  virtual CudaCode CreateMemory(int ordinal, std::uint64_t bytes, CudaMemory* memory) = 0;
  virtual CudaCode ReleaseMemory(CudaMemory memory) = 0;
  virtual CudaCode ReserveAddresses(std::uint64_t bytes, std::byte** address) = 0;
  virtual CudaCode FreeAddresses(std::byte* address, std::uint64_t bytes) = 0;
  virtual CudaCode MapMemory(std::byte* address, std::uint64_t bytes, CudaMemory memory) = 0;
  virtual CudaCode UnmapMemory(std::byte* address, std::uint64_t bytes) = 0;
  virtual CudaCode AllowAccess(std::byte* address, std::uint64_t bytes, int ordinal) = 0;
};

}  // namespace sluice::device
