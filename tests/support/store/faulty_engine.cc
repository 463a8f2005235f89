#include "tests/support/store/faulty_engine.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace sluice::testing {
namespace {

using Kind = FaultPlan::Kind;

/// Completions of which kShuffled changes the order.
constexpr std::size_t kShuffledTogether = 4;

bool MovesBytes(const io::IoCommand& command) {
  return command.direction == io::IoDirection::kRead ||
         command.direction == io::IoDirection::kWrite;
}

}  // namespace

/// One attempt with a fault. It moves the bytes that the plan lets pass upstream, then reports the
/// plan's result.
class FaultyEngine::Attempt final : public io::IoRequest {
 public:
  Attempt(FaultyEngine& engine, io::IoRequest* original) : engine_(engine), original_(original) {
    command = original->command;
    command.bytes = BytesMoved();
    Redirect();
  }

  void Complete(std::int64_t result) override {
    const std::int64_t all = MovesBytes(command) ? static_cast<std::int64_t>(command.bytes) : 0;
    SLUICE_CHECK(result == all || plan().kind == Kind::kMisaligned, "upstream has no faults");
    reported_ = Report();
    switch (plan().kind) {
      case Kind::kLate: {
        const bool later = engine_.hooks_.timer->After(plan().pause, [this] { Deliver(); });
        SLUICE_CHECK(later, "a timer of a test takes every job");
        return;
      }
      case Kind::kHeld:
      case Kind::kShuffled:
        return engine_.Hold(this);
      default:
        return Deliver();
    }
  }

  /// Continues an attempt that was held.
  void GoOn() { plan().kind == Kind::kHeldBefore ? engine_.SubmitUpstream(this) : Deliver(); }

  void Deliver() {
    io::IoRequest* const original = original_;
    const std::int64_t reported = reported_;
    delete this;
    original->Complete(reported);
  }

  /// Reads into memory of its own instead: something must run upstream, so that the completion
  /// comes from a thread of it.
  void MoveNothing() {
    command = original_->command;
    command.direction = io::IoDirection::kRead;
    command.data = Scratch();
  }

 private:
  const FaultPlan& plan() const { return engine_.plan_; }

  std::size_t BytesMoved() const {
    const std::size_t all = original_->command.bytes;
    const std::size_t block = original_->command.file->alignment;
    switch (plan().kind) {
      case Kind::kShort:
        return std::clamp((plan().moved + block - 1) / block * block, block, all);
      case Kind::kError:
        return block;
      case Kind::kTornWrite:
        return std::max(block, all / 2 / block * block);
      default:
        return all;
    }
  }

  /// Other bytes, another place or no bytes at all, as the plan says.
  void Redirect() {
    if (plan().kind == Kind::kLostWrite || plan().kind == Kind::kRefused) return MoveNothing();
    if (plan().kind == Kind::kMisaligned) command.offset += kBlockOfTheMedium;
    if (plan().kind == Kind::kMisdirected) return Misdirect();
    if (command.direction == io::IoDirection::kWrite) ChangeBytes();
  }

  void ChangeBytes() {
    const bool damages = plan().kind == Kind::kFlip || plan().kind == Kind::kZeroTail;
    if (!damages && plan().kind != Kind::kStaleWrite) return;
    std::memcpy(Scratch(), command.data, command.bytes);
    command.data = scratch_.get();
    if (damages) return Damage(command.data);
    engine_.hooks_.stale(command.offset / engine_.page_bytes_, {command.data, command.bytes});
  }

  void Misdirect() {
    const std::uint64_t page = command.offset / engine_.page_bytes_;
    landed_ = engine_.hooks_.elsewhere(page);
    if (landed_ == page) return MoveNothing();
    engine_.hooks_.on_harm(landed_);
    command.offset = landed_ * engine_.page_bytes_ + command.offset % engine_.page_bytes_;
  }

  void Damage(std::byte* data) const {
    const std::size_t half = original_->command.bytes / 2;
    if (plan().kind == Kind::kZeroTail) {
      std::memset(data + half, 0, half);
    } else {
      data[half] = ~data[half];
    }
  }

  std::byte* Scratch() {
    scratch_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, original_->command.bytes)));
    return scratch_.get();
  }

  std::int64_t Report() const {
    const io::IoCommand& wanted = original_->command;
    const bool read = wanted.direction == io::IoDirection::kRead;
    const bool damaged = plan().kind == Kind::kFlip || plan().kind == Kind::kZeroTail;
    if (read && damaged) Damage(wanted.data);
    if (landed_ != kNowhere && MovesBytes(command)) engine_.hooks_.on_harm(landed_);
    switch (plan().kind) {
      case Kind::kError:
      case Kind::kRefused:
        return -plan().error_number;
      case Kind::kMisaligned:
        return -EINVAL;
      case Kind::kShort: {
        const std::size_t moved = std::min<std::size_t>(plan().moved, wanted.bytes);
        if (read) std::memset(wanted.data + moved, 0xee, wanted.bytes - moved);
        return static_cast<std::int64_t>(moved);
      }
      default:
        return MovesBytes(wanted) ? static_cast<std::int64_t>(wanted.bytes) : 0;
    }
  }

  /// Block of a disk, smaller than that of the engines' requests.
  static constexpr std::uint64_t kBlockOfTheMedium = 512;
  static constexpr std::uint64_t kNowhere = UINT64_MAX;

  FaultyEngine& engine_;
  io::IoRequest* const original_;
  std::uint64_t landed_ = kNowhere;
  std::int64_t reported_ = 0;
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> scratch_;
};

FaultyEngine::FaultyEngine(std::unique_ptr<io::IoEngine> upstream,
                           const FaultPlan& plan,
                           std::uint64_t page_bytes,
                           FaultHooks hooks)
    : plan_(plan),
      page_bytes_(page_bytes),
      hooks_(std::move(hooks)),
      upstream_(std::move(upstream)) {}

FaultyEngine::~FaultyEngine() = default;

bool FaultyEngine::struck() const {
  base::MutexLock lock(mutex_);
  return strikes_ > 0;
}

std::uint64_t FaultyEngine::operations() const {
  base::MutexLock lock(mutex_);
  return operations_;
}

io::RegisteredMemory FaultyEngine::RegisterMemory(std::span<std::byte> memory) {
  // Upstream without the lock: it waits for a thread that may be asking here.
  if (!StrikesRegistration()) return upstream_->RegisterMemory(memory);
  const std::size_t bytes = std::min<std::size_t>(plan_.moved, memory.size());
  io::RegisteredMemory registered;
  if (bytes > 0) registered = upstream_->RegisterMemory(memory.first(bytes));
  registered.reason = "ENOMEM";
  return registered;
}

bool FaultyEngine::StrikesRegistration() {
  base::MutexLock lock(mutex_);
  if (healed_ || plan_.kind != Kind::kUnregistered) return false;
  if (operations_++ < plan_.operation || strikes_ >= plan_.times) return false;
  ++strikes_;
  return true;
}

void FaultyEngine::Heal() {
  base::MutexLock lock(mutex_);
  healed_ = true;
}

std::size_t FaultyEngine::held() const {
  base::MutexLock lock(mutex_);
  return held_.size();
}

bool FaultyEngine::accepted_misaligned() const {
  base::MutexLock lock(mutex_);
  return accepted_misaligned_;
}

bool FaultyEngine::Matches(const io::IoCommand& command) const {
  if (plan_.direction.has_value() && command.direction != *plan_.direction) return false;
  return !hooks_.concerns || hooks_.concerns(command);
}

bool FaultyEngine::Strikes(const io::IoCommand& command) {
  if (plan_.kind == Kind::kUnregistered || !Matches(command)) return false;
  base::MutexLock lock(mutex_);
  if (healed_) return false;
  const std::uint64_t page = command.offset / page_bytes_;
  if (operations_++ == plan_.operation) struck_page_ = page;
  const bool begun = operations_ > plan_.operation;
  const bool here = plan_.everywhere || page == struck_page_;
  if (!begun || !here || strikes_ >= plan_.times) return false;
  ++strikes_;
  return true;
}

void FaultyEngine::SubmitChecked(io::IoRequest* request) {
  if (Strikes(request->command)) return SubmitAttempt(request);
  SLUICE_CHECK(upstream_->Submit(request).ok(), "upstream has the same rules");
}

void FaultyEngine::SubmitAttempt(io::IoRequest* request) {
  if (hooks_.on_harm) hooks_.on_harm(request->command.offset / page_bytes_);
  auto* const attempt = new Attempt(*this, request);
  if (plan_.kind == Kind::kMisaligned) return SubmitMisaligned(attempt);
  if (plan_.kind == Kind::kHeldBefore) return Hold(attempt);
  SubmitUpstream(attempt);
}

void FaultyEngine::SubmitUpstream(Attempt* attempt) {
  SLUICE_CHECK(upstream_->Submit(attempt).ok(), "upstream has the same rules");
}

void FaultyEngine::SubmitMisaligned(Attempt* attempt) {
  if (upstream_->Submit(attempt).ok()) {
    base::MutexLock lock(mutex_);
    accepted_misaligned_ = true;
    return;
  }
  attempt->MoveNothing();
  SubmitUpstream(attempt);
}

void FaultyEngine::Hold(Attempt* attempt) {
  bool healed = false;
  {
    base::MutexLock lock(mutex_);
    healed = healed_;
    if (!healed) held_.push_back(attempt);
  }
  if (healed) return attempt->GoOn();
  // The attempt may be released from now on, by any thread. This engine lives until its threads are
  // joined.
  if (hooks_.on_held) hooks_.on_held();
  if (plan_.kind == Kind::kShuffled) LetGo(TakeHeld(kShuffledTogether));
}

bool FaultyEngine::ReleaseHeld() {
  const std::vector<Attempt*> held = TakeHeld(1);
  LetGo(held);
  return !held.empty();
}

/// All held attempts, in another order, if they are at least `least`.
std::vector<FaultyEngine::Attempt*> FaultyEngine::TakeHeld(std::size_t least) {
  base::MutexLock lock(mutex_);
  if (held_.size() < least) return {};
  std::shuffle(held_.begin(), held_.end(), order_);
  return std::exchange(held_, {});
}

void FaultyEngine::LetGo(const std::vector<Attempt*>& attempts) {
  for (Attempt* attempt : attempts) attempt->GoOn();
}

}  // namespace sluice::testing
