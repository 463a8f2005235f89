#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "tests/support/cuda/gpu/fake_fate.h"
#include "tests/support/cuda/gpu/fake_stream.h"

namespace sluice::testing {

/// The primary context of a device, with its streams. Streams live as long as the driver, for work
/// that a handle's destruction does not stop.
class FakeContext {
 public:
  struct Options {
    int ordinal = 0;
    std::uint64_t seed = 0;
    std::chrono::microseconds delay_max{0};
  };

  explicit FakeContext(const Options& options);
  /// Ends all work.
  ~FakeContext();

  int ordinal() const { return options_.ordinal; }
  FakeFate& fate() { return fate_; }
  std::atomic<int>& shares() { return shares_; }

  FakeStream& MakeStream(bool waits_for_legacy, bool of_user);
  FakeStream& legacy() { return *legacy_; }
  /// Appends the items to the stream, with the waits that the legacy stream asks for.
  void Push(FakeStream& stream, std::vector<FakeItem> items);
  /// Waits until every stream has come to the end of what it has now.
  void WaitForAllWork();
  /// Error of the context. If there is one, no work runs any more.
  device::CudaCode Error();
  /// Whether a stream that waits for the legacy stream is being captured.
  bool CapturesBlockingStream();
  int LeakedStreams();

 private:
  std::vector<FakeStream*> Streams();

  const Options options_;
  FakeFate fate_;
  std::atomic<int> shares_{0};
  base::Mutex mutex_;
  std::deque<std::unique_ptr<FakeStream>> streams_ ABSL_GUARDED_BY(mutex_);
  base::Mutex legacy_mutex_;  ///< lock for the order of the legacy stream and blocking ones
  const FakeFlag* legacy_work_ ABSL_GUARDED_BY(legacy_mutex_) = nullptr;
  FakeStream* legacy_ = nullptr;
};

}  // namespace sluice::testing
