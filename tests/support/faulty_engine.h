#pragma once

#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "io/io_engine.h"

namespace sluice::testing {

/// What goes wrong, from which operation on, and how often.
struct FaultPlan {
  enum class Kind {
    kShort,      ///< `moved` bytes are reported instead of all
    kError,      ///< `error_number`, after the first block was moved: an error is not "no effect"
    kFlip,       ///< a read succeeds with one byte inverted
    kLostWrite,  ///< a write is acknowledged and dropped
    kTornWrite,  ///< a write is acknowledged and only its first half stored
  };
  Kind kind = Kind::kError;
  int error_number = 0;
  std::uint64_t moved = 0;
  /// The fault begins with the attempt of this number, counted from 0 over all that match
  /// `direction`. The same range of the file then fails `times` times; other ranges do not.
  std::uint64_t operation = UINT64_MAX;
  std::uint64_t times = 1;
  io::IoDirection direction = io::IoDirection::kRead;
};

constexpr std::uint64_t kAlways = UINT64_MAX;

/// An engine over another that follows a FaultPlan. Threads: as every engine.
class FaultyEngine final : public io::IoEngine {
 public:
  /// `page_bytes`: what one range of the plan is.
  FaultyEngine(std::unique_ptr<io::IoEngine> upstream,
               const FaultPlan& plan,
               std::uint64_t page_bytes)
      : upstream_(std::move(upstream)), plan_(plan), page_bytes_(page_bytes) {}

  std::string_view name() const override { return upstream_->name(); }
  void Hasten(const io::IoFile& file, std::uint64_t offset, std::uint64_t bytes) override {
    upstream_->Hasten(file, offset, bytes);
  }
  /// Whether the plan's operation was reached.
  bool struck() const;

 protected:
  void SubmitChecked(io::IoRequest* request) override;

 private:
  class Attempt;
  bool Strikes(const io::IoCommand& command);

  const std::unique_ptr<io::IoEngine> upstream_;
  const FaultPlan plan_;
  const std::uint64_t page_bytes_;
  mutable base::Mutex mutex_;
  std::uint64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t strikes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t struck_page_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice::testing
