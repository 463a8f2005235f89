#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/timer.h"
#include "io/engine/io_engine.h"

namespace sluice::testing {

constexpr std::uint64_t kAlways = UINT64_MAX;

/// Kind of a fault, the attempt that it begins with, and its repetitions.
struct FaultPlan {
  enum class Kind {
    kNone,     ///< no fault: the attempt is only reached
    kShort,    ///< `moved` bytes are reported instead of all
    kError,    ///< `error_number`, after the first block was moved
    kRefused,  ///< `error_number`, and no byte was moved
    /// Success with one byte inverted: in memory for a read, in the file for a write.
    kFlip,
    kZeroTail,     ///< the second half is zeros
    kLostWrite,    ///< a write is acknowledged and dropped
    kStaleWrite,   ///< a write is acknowledged, and an older version of the page stored
    kTornWrite,    ///< a write is acknowledged and only the first half of its blocks stored
    kMisdirected,  ///< a write is acknowledged and stored in the place of another page
    kMisaligned,   ///< an unaligned request, which the engine below must refuse; then EINVAL
    kLate,         ///< completion is `pause` of the timer later
    kHeld,         ///< completion waits until nothing else goes on: see ReleaseHeld
    kHeldBefore,   ///< attempt begins when nothing else goes on; until then no byte has moved
    kShuffled,     ///< completions wait until there are four, which then come in another order
    /// Registration of memory is refused, but for its first `moved` bytes. `operation` and `times`
    /// count registrations, and no attempt is struck.
    kUnregistered,
  };
  Kind kind = Kind::kError;
  int error_number = 0;
  std::uint64_t moved = 0;
  std::chrono::microseconds pause{0};
  /// Number of the attempt that the fault begins with, counted from 0 over all that match
  /// `direction` and `concerns`. The same range of the file then fails `times` times; other ranges
  /// only if `everywhere`.
  std::uint64_t operation = UINT64_MAX;
  std::uint64_t times = 1;
  bool everywhere = false;
  /// Direction of the attempts; none: either.
  std::optional<io::IoDirection> direction;
};

/// Functions that a FaultyEngine calls on the thread that submits. Empty ones are not called.
struct FaultHooks {
  /// Whether the fault may strike this command at all.
  std::function<bool(const io::IoCommand&)> concerns;
  /// Called when the fault harms the page, before the attempt is made. A misdirected write also
  /// harms the page that it replaces: called again afterwards, on a thread of the engine.
  std::function<void(std::uint64_t page)> on_harm;
  /// Function that gives an older version of the page, for kStaleWrite.
  std::function<void(std::uint64_t page, std::span<std::byte> out)> stale;
  /// Function that gives the page where a misdirected write goes.
  std::function<std::uint64_t(std::uint64_t page)> elsewhere;
  /// Called when a completion is held back, on a thread of the engine.
  std::function<void()> on_held;
  /// Timer for kLate; outlives the engine.
  base::Timer* timer = nullptr;
};

/// An engine over another that follows a FaultPlan. Threads: as every engine.
class FaultyEngine final : public io::IoEngine {
 public:
  /// `page_bytes`: length of a range of the plan.
  FaultyEngine(std::unique_ptr<io::IoEngine> upstream,
               const FaultPlan& plan,
               std::uint64_t page_bytes,
               FaultHooks hooks = {});
  ~FaultyEngine() override;

  std::string_view name() const override { return upstream_->name(); }
  io::RegisteredMemory RegisterMemory(std::span<std::byte> memory) override;
  void UnregisterMemory(std::span<std::byte> memory) override {
    upstream_->UnregisterMemory(memory);
  }
  void Hasten(const io::IoFile& file, std::uint64_t offset, std::uint64_t bytes) override {
    upstream_->Hasten(file, offset, bytes);
  }

  /// Whether the plan's attempt was reached.
  bool struck() const;
  /// Attempts that matched the plan's direction and concern so far, or registrations.
  std::uint64_t operations() const;
  /// Ends all faults, and holds nothing back from now on.
  void Heal();
  /// Number of attempts that are held back.
  std::size_t held() const;
  /// Continues the held attempts on the calling thread. Returns false if there are none.
  bool ReleaseHeld();
  /// Whether the engine below took an unaligned request.
  bool accepted_misaligned() const;

 protected:
  void SubmitChecked(io::IoRequest* request) override;

 private:
  class Attempt;
  bool Strikes(const io::IoCommand& command);
  bool StrikesRegistration();
  bool Matches(const io::IoCommand& command) const;
  void SubmitAttempt(io::IoRequest* request);
  void SubmitMisaligned(Attempt* attempt);
  void SubmitUpstream(Attempt* attempt);
  void Hold(Attempt* attempt);
  std::vector<Attempt*> TakeHeld(std::size_t least);
  static void LetGo(const std::vector<Attempt*>& attempts);

  const FaultPlan plan_;
  const std::uint64_t page_bytes_;
  const FaultHooks hooks_;
  mutable base::Mutex mutex_;
  std::uint64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t strikes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t struck_page_ ABSL_GUARDED_BY(mutex_) = 0;
  bool healed_ ABSL_GUARDED_BY(mutex_) = false;
  bool accepted_misaligned_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Attempt*> held_ ABSL_GUARDED_BY(mutex_);
  std::mt19937 order_ ABSL_GUARDED_BY(mutex_){15};
  /// The engine below, destroyed first: its threads use the other members until they are joined.
  const std::unique_ptr<io::IoEngine> upstream_;
};

}  // namespace sluice::testing
