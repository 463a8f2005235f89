#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/owner_process.h"
#include "tests/support/cuda/fake_calls.h"
#include "tests/support/cuda/fake_capture.h"
#include "tests/support/cuda/fake_options.h"
#include "tests/support/cuda/gpu/fake_context.h"
#include "tests/support/cuda/gpu/fake_memory.h"
#include "tests/support/cuda/gpu/fake_registrations.h"

namespace sluice::testing {

// Numbers of CUresult that only the fake gives.
inline constexpr device::CudaCode kFakeNotInitialized = 3;
inline constexpr device::CudaCode kFakeInvalidDevice = 101;
inline constexpr device::CudaCode kFakeInvalidHandle = 400;
inline constexpr device::CudaCode kFakeIllegalState = 401;
inline constexpr device::CudaCode kFakeCaptureMerge = 902;
inline constexpr device::CudaCode kFakeCaptureUnmatched = 903;
inline constexpr device::CudaCode kFakeCaptureIsolation = 905;
inline constexpr device::CudaCode kFakeCaptureImplicit = 906;
inline constexpr device::CudaCode kFakeCapturedEvent = 907;
inline constexpr device::CudaCode kFakeCaptureWrongThread = 908;

/// State of a thread, as the driver knows it.
struct FakeThread {
  std::vector<FakeContext*> contexts;  ///< the last one is current
  device::CudaCaptureMode mode = device::CudaCaptureMode::kGlobal;
  std::map<FakeContext*, FakeStream*> streams;  ///< the per-thread stream of each context
};

/// An event, kept to the end of the driver. Each record is a flag of its own, so that a query sees
/// the work before that record and no later work.
struct FakeEvent {
  base::Mutex mutex;
  std::deque<FakeFlag> records ABSL_GUARDED_BY(mutex);
  std::atomic<const FakeFlag*> last{nullptr};
  std::atomic<FakeCapture*> capture{nullptr};  ///< capture of the last record, if there was one
  std::atomic<bool> open{true};
};

/// Counters for tests.
struct FakeCounters {
  std::atomic<std::uint64_t> bytes_in{0};
  std::atomic<std::uint64_t> bytes_out{0};
  std::atomic<std::uint64_t> blocking_copies{0};
  std::atomic<std::uint64_t> batches{0};
  FakeInFlight copies_in;
  FakeInFlight copies_out;
};

/// All of a fake driver. The calls of FakeDriver and FakeCuda are written with it.
class FakeState {
 public:
  explicit FakeState(const FakeCudaOptions& options);
  ~FakeState();

  const FakeCudaOptions options;
  FakeCalls calls;
  FakeCounters counters;
  FakeAddressSpace space;
  FakeRegistrations registrations;
  std::atomic<std::int64_t> registrations_passing{0};
  std::atomic<std::uint32_t> held_registrations{0};  ///< 1: registrations stand still
  std::atomic<bool> holds_copies_in{false};
  FakeGate held_copies;

  /// Counts a call, and gives the error that was injected into it.
  device::CudaCode Count(FakeEntry entry);
  /// Begins a call that needs a context: Count, and *context becomes the current one.
  device::CudaCode Begin(FakeEntry entry, FakeContext** context);
  /// Begins a call that other threads' captures forbid.
  device::CudaCode BeginUnsafe(FakeEntry entry, FakeContext** context);
  /// The current context, or the code that it gives.
  device::CudaCode Current(FakeContext** context);

  FakeThread& thread();
  FakeContext* context(int ordinal);
  void WaitForAllWork();
  void KillAll(device::CudaCode code);

  FakeEvent& MakeEvent();
  /// The stream of a handle; null if it was destroyed.
  FakeStream* Find(FakeContext& context, device::CudaStream handle);
  static FakeEvent* Find(device::CudaEvent handle);

  /// Appends work to the stream, or to what it captures.
  device::CudaCode Enqueue(FakeContext& context, FakeStream& stream, std::vector<FakeItem> items);

  // Captures.
  device::CudaCode ForbidUnsafe();
  FakeCapture& MakeCapture(FakeStream& origin, bool global);
  void EndCapture(FakeCapture& capture);
  /// Makes the stream wait for an event of the capture; null for an event of no capture.
  device::CudaCode JoinCapture(FakeStream& stream, FakeCapture* capture);
  FakeGraph& MakeGraph(std::vector<FakeWork> work);

  std::vector<std::string> Leaks();

 private:
  int OpenEvents();
  int OpenGraphs();

  const base::OwnerProcess owner_;
  pthread_key_t thread_key_ = 0;
  base::Mutex mutex_;
  std::deque<FakeThread> threads_ ABSL_GUARDED_BY(mutex_);
  std::deque<FakeEvent> events_ ABSL_GUARDED_BY(mutex_);
  std::deque<FakeCapture> captures_ ABSL_GUARDED_BY(mutex_);
  std::deque<FakeGraph> graphs_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> open_captures_{0};
  std::vector<std::unique_ptr<FakeContext>> contexts_;  ///< one per device; last, as they end first
};

}  // namespace sluice::testing
