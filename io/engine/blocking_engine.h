#pragma once

#include <cstdint>
#include <functional>
#include <limits>
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
    /// IoEngineOptions::bytes_in_flight_max.
    std::uint64_t bytes_in_flight_max = std::numeric_limits<std::uint64_t>::max();
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
  BlockingEngine(const Options& options, PerformFn perform)
      : name_(options.name),
        bytes_in_flight_max_(options.bytes_in_flight_max),
        perform_(std::move(perform)) {}
  absl::Status Start(const Options& options);
  void Run();
  IoRequest* WaitForRequest();
  void NotePerformed(std::uint64_t bytes);
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string_view name_;
  const std::uint64_t bytes_in_flight_max_;
  const PerformFn perform_;
  base::Mutex mutex_;
  base::CondVar may_take_;
  RequestQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace sluice::io
