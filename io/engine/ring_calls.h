#pragma once

#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "base/mutex.h"

namespace sluice::io {

/// Calls for a ring's thread, which alone may change the ring. Threads: Run any but that one, the
/// rest that one.
class RingCalls {
 public:
  /// Returns once the thread has run `call`. `wake` makes it look at the calls.
  void Run(absl::AnyInvocable<void()> call, absl::FunctionRef<void()> wake) {
    std::promise<void> done;
    std::future<void> finished = done.get_future();
    {
      base::MutexLock lock(mutex_);
      calls_.push_back({std::move(call), std::move(done)});
    }
    wake();
    finished.get();
  }

  bool empty() {
    base::MutexLock lock(mutex_);
    return calls_.empty();
  }

  void RunAll() {
    std::vector<Call> calls;
    {
      base::MutexLock lock(mutex_);
      calls.swap(calls_);
    }
    for (Call& call : calls) {
      call.function();
      call.done.set_value();
    }
  }

 private:
  struct Call {
    absl::AnyInvocable<void()> function;
    std::promise<void> done;
  };

  base::Mutex mutex_;
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::io
