#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "tests/support/cuda/gpu/fake_fate.h"
#include "tests/support/cuda/gpu/fake_flag.h"

namespace sluice::testing {

struct FakeCapture;

/// Work of a stream. Its result is the sticky error that it causes, or kCudaSuccess.
using FakeWork = std::function<device::CudaCode()>;

/// Items between their push and the end of their work.
class FakeInFlight {
 public:
  void Enter();
  void Leave() { now_.fetch_sub(1, std::memory_order_relaxed); }
  int most() const { return most_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> now_{0};
  std::atomic<int> most_{0};
};

struct FakeItem {
  FakeWork work = nullptr;
  const FakeFlag* wait = nullptr;     ///< flag that must be set before the work starts
  FakeFlag* done = nullptr;           ///< flag that the stream sets after the work
  FakeInFlight* in_flight = nullptr;  ///< counter that includes this item
};

/// A stream: a queue and a thread that runs it in order, each item after a random delay.
///
/// Order that ThreadSanitizer sees: an item's push before the item, one item before the next, and
/// the flags. A stream never gives order to who pushes: the queue is a list without a lock on the
/// reading side, and an item sees no push later than its own.
class FakeStream {
 public:
  struct Options {
    bool waits_for_legacy = false;  ///< a blocking stream, in CUDA's words
    bool of_user = true;            ///< true if CreateStream made it, so that it counts as a leak
    std::uint64_t seed = 0;
    std::chrono::microseconds delay_max{0};
  };

  FakeStream(FakeFate& fate, const Options& options);
  ~FakeStream();

  /// Appends the items, with nothing between them. REQUIRES: the stream is open.
  void Push(std::vector<FakeItem> items);
  /// Flag that the stream sets once it has come to what is pushed so far.
  const FakeFlag& Mark();
  /// Ends the thread after what is pushed so far.
  void Close();

  const Options& options() const { return options_; }
  bool open() const { return open_.load(std::memory_order_relaxed); }
  FakeCapture* capture() const { return capture_.load(std::memory_order_acquire); }
  void SetCapture(FakeCapture* capture) { capture_.store(capture, std::memory_order_release); }

 private:
  struct Node {
    FakeItem item = {};
    bool last = false;
    std::atomic<Node*> next{nullptr};
  };

  void Append(FakeItem item, bool last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();
  Node* AwaitNext(const Node& node);
  void Run(Node* first);
  void RunItem(const FakeItem& item);
  void Delay();

  FakeFate& fate_;
  const Options options_;
  std::atomic<bool> open_{true};
  std::atomic<FakeCapture*> capture_{nullptr};
  std::mt19937_64 random_;                ///< used by the thread alone
  std::atomic<std::uint32_t> pushes_{0};  ///< word that the thread sleeps on
  base::Mutex mutex_;                     ///< lock of those who push, never of the thread
  Node* newest_ ABSL_GUARDED_BY(mutex_);
  std::deque<FakeFlag> marks_ ABSL_GUARDED_BY(mutex_);
  FakeFlag ended_;
  std::thread thread_;
};

}  // namespace sluice::testing
