#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/cuda/cuda_lab.h"
#include "tests/support/cuda/fake_calls.h"
#include "tests/support/cuda/fake_options.h"

namespace sluice::testing {

class FakeDriver;
class FakeState;

/// A CUDA driver without a GPU. Its streams are threads that copy asynchronously. Its device memory
/// is host memory that only the streams reach, and the host faults at a device address.
///
/// The fake finds:
/// - refused calls and sticky errors, as the driver gives them (driver_truths.h checks that)
/// - objects that were not given back
/// - under ThreadSanitizer, work on one frame that no stream, event or wait of the host puts in
///   order
/// - under ThreadSanitizer, an unmap beside work on the address.
/// It does not find a registration that outlives a remap of its host memory.
class FakeCuda : public CudaLab {
 public:
  explicit FakeCuda(const FakeCudaOptions& options = {});
  /// Ends all work. Threads that still call the API must be gone.
  ~FakeCuda() override;

  device::CudaApi& api() override;
  device::CudaCode LaunchAdd(std::span<std::byte> span,
                             std::uint8_t value,
                             device::CudaStream stream) override;
  device::CudaCode CopyWithin(std::byte* to,
                              std::span<const std::byte> from,
                              device::CudaStream stream) override;
  device::CudaCode LaunchGate(int gate, device::CudaStream stream) override;
  void Open(int gate) override;
  device::CudaCode BeginCapture(device::CudaStream stream, bool global) override;
  device::CudaCode EndCapture(device::CudaStream stream, CudaGraph* graph) override;
  device::CudaCode LaunchGraph(CudaGraph graph, device::CudaStream stream) override;
  device::CudaCode DestroyGraph(CudaGraph graph) override;

  // Faults.
  void Inject(const FakeInjection& injection);
  /// The call that met the injection, if one did.
  std::optional<FakeEntry> injected() const;
  /// Makes the nth piece of work (a copy, a fill, a kernel) from now on end with the sticky code.
  void FailWork(std::uint64_t nth, device::CudaCode code, int ordinal = 0);
  /// Takes device memory as another program does; a negative number gives it back.
  void TakeMemory(std::int64_t bytes, int ordinal = 0);

  /// Holds registrations of host memory from the next call but `passing` on, until
  /// ReleaseRegistrations.
  void HoldRegistrations(std::uint64_t passing);
  void ReleaseRegistrations();
  /// Holds copies in that are enqueued from now on, until ReleaseCopies.
  void HoldCopies();
  void ReleaseCopies();

  // Counters.
  std::uint64_t calls() const;
  std::uint64_t calls(FakeEntry entry) const;
  std::uint64_t bytes_in() const;
  std::uint64_t bytes_out() const;
  /// Calls that waited for a copy because its host memory is not registered.
  std::uint64_t blocking_copies() const;
  /// Most copies in flight at once: enqueued, but not at their end.
  int most_copies_in() const;
  int most_copies_out() const;

  /// Pieces of work that ended. The caller is ordered behind none of them: ThreadSanitizer counts
  /// the call as no wait.
  std::uint64_t ended_work(int ordinal = 0) const;

  /// Bytes of a device address, past all streams. REQUIRES: mapped; work on it has ended.
  std::vector<std::byte> Peek(const std::byte* address, std::uint64_t bytes) const;

  /// Objects that the API made and that were not given back. Objects of a dead context do not
  /// count.
  std::vector<std::string> Leaks() const;

 private:
  std::unique_ptr<FakeState> state_;
  std::unique_ptr<FakeDriver> driver_;
};

}  // namespace sluice::testing
