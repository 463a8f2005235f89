#pragma once

#include <future>
#include <utility>

#include "runtime/device/device.h"
#include "runtime/engine/serial_executor.h"

namespace sluice::engine {

/// A stream for runtimes without a device: a host thread. Threads: any.
class HostStream : public device::Stream {
 public:
  explicit HostStream(const std::vector<int>& cpus) : executor_("sluice-stream", cpus) {}

  void Enqueue(absl::AnyInvocable<void()> work) override { executor_.Post(std::move(work)); }

  void Notify(device::DoneFn done) override {
    executor_.Post([done = std::move(done)]() mutable { done(absl::OkStatus()); });
  }

  void Synchronize() override {
    std::promise<void> reached;
    executor_.Post([&reached] { reached.set_value(); });
    reached.get_future().wait();
  }

 private:
  SerialExecutor executor_;
};

}  // namespace sluice::engine
