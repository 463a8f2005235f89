#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "runtime/engine/setup/backends.h"
#include "sluice/runtime.h"
#include "tests/runtime/engine/faulty_store.h"
#include "tests/support/temp_directory.h"

namespace sluice::testing {

/// Collects log lines. Threads: any.
class LogCollector {
 public:
  LogSink sink();
  /// Number of lines that contain `text`.
  int Count(std::string_view text) const;
  std::string All() const;

 private:
  mutable base::Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

/// A listener that counts and keeps its events. Threads: any.
class CountingListener : public EventListener {
 public:
  void OnPageLost(const PageLostEvent& event) override;
  void OnFallback(const FallbackEvent& event) override;
  void OnTierFenced(const TierFencedEvent& event) override;
  void OnDriveFenced(const DriveFencedEvent& event) override;
  void OnTransferStalled(const TransferStalledEvent& event) override;
  void OnLeaseStalled(const LeaseStalledEvent& event) override;

  std::vector<PageLostEvent> lost() const;
  std::vector<FallbackEvent> fallbacks() const;
  std::vector<TierFencedEvent> fenced() const;
  std::vector<DriveFencedEvent> drives_fenced() const;
  std::vector<TransferStalledEvent> stalled() const;
  std::vector<LeaseStalledEvent> stalled_leases() const;

 private:
  mutable base::Mutex mutex_;
  std::vector<PageLostEvent> lost_ ABSL_GUARDED_BY(mutex_);
  std::vector<FallbackEvent> fallbacks_ ABSL_GUARDED_BY(mutex_);
  std::vector<TierFencedEvent> fenced_ ABSL_GUARDED_BY(mutex_);
  std::vector<DriveFencedEvent> drives_fenced_ ABSL_GUARDED_BY(mutex_);
  std::vector<TransferStalledEvent> stalled_ ABSL_GUARDED_BY(mutex_);
  std::vector<LeaseStalledEvent> stalled_leases_ ABSL_GUARDED_BY(mutex_);
};

/// A small Runtime on a temporary spill directory: 4 KiB pages, 16 of hbm, 32 of dram, 1024 of
/// nvme.
class RuntimeFixture {
 public:
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint32_t kHbmPages = 16;
  static constexpr std::uint32_t kDramPages = 32;
  static constexpr std::uint32_t kNvmePages = 1024;

  RuntimeFixture();

  /// Creates (or recreates) the runtime; the test fails when that fails.
  void Start();
  void Stop() { runtime_.reset(); }
  Runtime& operator*() { return *runtime_; }
  Runtime* operator->() { return runtime_.get(); }

  /// A byte tensor of its own segment; the test fails when it cannot be made.
  TensorId Make(const std::string& name, std::uint64_t bytes);

  /// Writes `bytes` from `offset` on, page by page through spans, in `tier`.
  void Write(TensorId tensor,
             std::span<const std::byte> bytes,
             std::uint64_t offset = 0,
             TierId tier = kDram0);
  /// The whole tensor, page by page through contiguous leases in `tier`.
  std::vector<std::byte> Read(TensorId tensor, TierId tier = kDram0);
  /// One access, waited for.
  absl::StatusOr<Lease> Acquire(const Access& access);

  RuntimeOptions options;
  engine::BackendHooks hooks;
  LogCollector log;
  CountingListener listener;
  StoreFaults faults;  ///< outlives the store that `hooks` may wrap with it

 private:
  TempDirectory directory_;
  std::unique_ptr<Runtime> runtime_;
};

/// A byte tensor's spec.
TensorSpec ByteTensor(const std::string& name, std::uint64_t bytes);

/// Bytes that depend on `seed` and their place.
std::vector<std::byte> Pattern(std::uint64_t seed, std::uint64_t bytes);

}  // namespace sluice::testing

namespace sluice {

/// Bytes of a page in the tests on RuntimeFixture.
inline constexpr std::uint64_t kPage = testing::RuntimeFixture::kPage;

}  // namespace sluice
