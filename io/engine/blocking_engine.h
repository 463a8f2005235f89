#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/cond_var.h"
#include "base/mutex.h"
#include "io/engine/io_engine.h"
#include "io/engine/request_queue.h"

namespace sluice::io {

/// Threads that each perform one command at a time by a function that blocks.
class BlockingEngine final : public IoEngine {
 public:
  /// Bytes moved, or a negative errno. Called from several threads at once.
  using PerformFn = std::function<std::int64_t(const IoCommand&)>;

  struct Options {
    std::string_view name;  ///< a literal
    std::uint32_t threads = 1;
    std::vector<int> cpus;
  };

  /// Errors: ResourceExhausted (a thread cannot be started; those that were are joined).
  static absl::StatusOr<std::unique_ptr<BlockingEngine>> Create(const Options& options,
                                                                PerformFn perform);
  ~BlockingEngine() override;

  void Hasten(const IoFile& file, std::uint64_t offset, std::uint64_t bytes) override;
  std::string_view name() const override { return name_; }
  std::string features() const override;

 protected:
  void SubmitChecked(IoRequest* request) override;

 private:
  BlockingEngine(std::string_view name, PerformFn perform)
      : name_(name), perform_(std::move(perform)) {}
  absl::Status Start(const Options& options);
  void Run();
  IoRequest* WaitForRequest();

  const std::string_view name_;
  const PerformFn perform_;
  base::Mutex mutex_;
  base::CondVar not_empty_;
  RequestQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace sluice::io
