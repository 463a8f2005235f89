#include "tests/support/faulty_engine.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace sluice::testing {

/// One attempt with a fault: moves some whole blocks upstream, then reports what the plan says.
class FaultyEngine::Attempt final : public io::IoRequest {
 public:
  Attempt(const FaultPlan& plan, io::IoRequest* original) : plan_(plan), original_(original) {
    command = original->command;
    command.bytes = BytesMoved();
    if (plan.kind == FaultPlan::Kind::kLostWrite) TurnIntoRead();
  }

  void Complete(std::int64_t result) override {
    SLUICE_CHECK(result == (MovesBytes() ? static_cast<std::int64_t>(command.bytes) : 0),
                 "upstream has no faults");
    io::IoRequest* original = original_;
    const std::int64_t reported = Report();
    delete this;
    original->Complete(reported);
  }

 private:
  bool MovesBytes() const {
    return command.direction == io::IoDirection::kRead ||
           command.direction == io::IoDirection::kWrite;
  }

  std::size_t BytesMoved() const {
    const std::size_t all = original_->command.bytes;
    const std::size_t block = original_->command.file->alignment;
    switch (plan_.kind) {
      case FaultPlan::Kind::kShort:
        return std::clamp((plan_.moved + block - 1) / block * block, block, all);
      case FaultPlan::Kind::kError:
        return block;
      case FaultPlan::Kind::kTornWrite:
        return std::max(block, all / 2 / block * block);
      case FaultPlan::Kind::kFlip:
      case FaultPlan::Kind::kLostWrite:
        return all;
    }
    return all;
  }

  // Something must run upstream, so that the completion comes from its thread.
  void TurnIntoRead() {
    scratch_ = std::unique_ptr<std::byte, void (*)(void*)>(
        static_cast<std::byte*>(std::aligned_alloc(4096, command.bytes)), std::free);
    command.direction = io::IoDirection::kRead;
    command.data = scratch_.get();
  }

  std::int64_t Report() const {
    const io::IoCommand& wanted = original_->command;
    switch (plan_.kind) {
      case FaultPlan::Kind::kError:
        return -plan_.error_number;
      case FaultPlan::Kind::kShort: {
        const std::size_t moved = std::min<std::size_t>(plan_.moved, wanted.bytes);
        if (wanted.direction == io::IoDirection::kRead) {
          std::memset(wanted.data + moved, 0xee, wanted.bytes - moved);
        }
        return static_cast<std::int64_t>(moved);
      }
      case FaultPlan::Kind::kFlip:
        wanted.data[wanted.bytes / 2] = ~wanted.data[wanted.bytes / 2];
        break;
      case FaultPlan::Kind::kLostWrite:
      case FaultPlan::Kind::kTornWrite:
        break;
    }
    return static_cast<std::int64_t>(wanted.bytes);
  }

  const FaultPlan plan_;
  io::IoRequest* const original_;
  std::unique_ptr<std::byte, void (*)(void*)> scratch_{nullptr, std::free};
};

bool FaultyEngine::struck() const {
  base::MutexLock lock(mutex_);
  return strikes_ > 0;
}

bool FaultyEngine::Strikes(const io::IoCommand& command) {
  if (command.direction != plan_.direction) return false;
  base::MutexLock lock(mutex_);
  const std::uint64_t page = command.offset / page_bytes_;
  if (operations_++ == plan_.operation) struck_page_ = page;
  const bool begun = operations_ > plan_.operation;
  if (!begun || page != struck_page_ || strikes_ >= plan_.times) return false;
  ++strikes_;
  return true;
}

void FaultyEngine::SubmitChecked(io::IoRequest* request) {
  io::IoRequest* forwarded = request;
  if (Strikes(request->command)) forwarded = new Attempt(plan_, request);
  SLUICE_CHECK(upstream_->Submit(forwarded).ok(), "upstream has the same rules");
}

}  // namespace sluice::testing
