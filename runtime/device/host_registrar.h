#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "runtime/device/device.h"

namespace sluice::device {

/// Registers chunks of host memory with a GPU. A thread of the registrar does all but the first, so
/// that the first page does not wait for the last chunk. Threads: Register and UnregisterAllBut one
/// at a time, the rest any.
class HostRegistrar {
 public:
  using Job = absl::AnyInvocable<void()>;
  using Chunks = std::vector<std::span<std::byte>>;

  /// `device` outlives the registrar.
  explicit HostRegistrar(Device& device) : device_(device) {}
  ~HostRegistrar();
  HostRegistrar(const HostRegistrar&) = delete;
  HostRegistrar& operator=(const HostRegistrar&) = delete;

  /// Registers the chunks. Returns once the first one is registered, or refused.
  void Register(const Chunks& chunks);
  /// Ends the registration of the other chunks. Waits for running registrations, and for all
  /// running work of the device.
  void UnregisterAllBut(const Chunks& staying);
  /// Runs `job` once no registration is to come of a chunk that contains the byte: at once, or
  /// later on the registrar's thread.
  void WhenSettled(const std::byte* byte, Job job);
  bool IsRegistered(const std::byte* byte) const;
  /// Reason for which the device does not know all chunks; empty if it does.
  std::string refusal() const;
  /// Calls `tell` now if a chunk was refused, and when one is, on the registrar's thread. `tell`
  /// replaces the function of an earlier call, which does not run any more once this returns.
  void OnRefused(std::function<void()> tell);

 private:
  struct Chunk {
    std::span<std::byte> memory;
    bool coming = true;  ///< true until the chunk's registration has ended
    bool registered = false;
    std::vector<Job> jobs;
  };
  using ByBegin = std::map<const std::byte*, Chunk>;

  void RegisterOne(std::span<std::byte> memory);
  void Tell();
  void Join();
  const Chunk* Find(const std::byte* byte) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Device& device_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
  mutable base::Mutex mutex_;
  ByBegin chunks_ ABSL_GUARDED_BY(mutex_);
  std::string refusal_ ABSL_GUARDED_BY(mutex_);
  base::Mutex tell_mutex_;
  std::function<void()> on_refused_ ABSL_GUARDED_BY(tell_mutex_);
};

}  // namespace sluice::device
