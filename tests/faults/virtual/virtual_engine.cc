#include "tests/faults/virtual/virtual_engine.h"

#include <utility>
#include <vector>

#include "base/check.h"

namespace sluice::faults {
namespace {

constexpr int kRefusalsMax = 100;
constexpr std::chrono::milliseconds kRefusalPause{1};

}  // namespace

VirtualEngine::~VirtualEngine() {
  SLUICE_CHECK(queue_.empty() && in_flight_ == 0, "an engine is destroyed after its last request");
}

/// Memory must not be registered twice: a ring would pin it a second time, and count it again.
io::RegisteredMemory VirtualEngine::RegisterMemory(std::span<std::byte> memory) {
  const auto next = registered_.lower_bound(memory.data());
  const bool known = next != registered_.end() && next->first < memory.data() + memory.size();
  SLUICE_CHECK(!known, "memory is registered once");
  registered_[memory.data()] = memory.size();
  return {.bytes = memory.size(), .reason = {}};
}

/// Pieces that begin in `memory`.
void VirtualEngine::UnregisterMemory(std::span<std::byte> memory) {
  registered_.erase(registered_.lower_bound(memory.data()),
                    registered_.lower_bound(memory.data() + memory.size()));
}

std::uint64_t VirtualEngine::registered_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [begin, bytes] : registered_) sum += bytes;
  return sum;
}

void VirtualEngine::SubmitChecked(io::IoRequest* request) {
  queue_.Push(request, clock_.time());
  Fill();
}

void VirtualEngine::Fill() {
  while (in_flight_ < options_.in_flight_max && !queue_.empty()) {
    if (waits_) return;
    if (Refused()) return WaitOutRefusal();
    refusals_in_a_row_ = 0;
    ++submissions_;
    Start(queue_.Pop(clock_.time()));
  }
}

bool VirtualEngine::Refused() {
  const Refusal& refusal = options_.refusal;
  if (healed_ || submissions_ < refusal.submission || refusals_ >= refusal.times) return false;
  ++refusals_;
  return true;
}

void VirtualEngine::WaitOutRefusal() {
  waits_ = true;
  const bool last = ++refusals_in_a_row_ >= kRefusalsMax;
  clock_.After(kRefusalPause, [this, last] {
    waits_ = false;
    last ? FailWaiting() : Fill();
  });
}

/// Fails the requests of the next submission. Later requests get refusals of their own.
void VirtualEngine::FailWaiting() {
  refusals_in_a_row_ = 0;
  std::vector<io::IoRequest*> failed;
  for (std::uint32_t i = in_flight_; i < options_.in_flight_max && !queue_.empty(); ++i) {
    failed.push_back(queue_.Pop(clock_.time()));
  }
  Fill();
  for (io::IoRequest* request : failed) request->Complete(-options_.refusal.error_number);
}

void VirtualEngine::Start(io::IoRequest* request) {
  ++in_flight_;
  clock_.After(Latency(), [this, request] { Finish(request); });
}

/// The completion comes last, since the destructor's caller may wait for it.
void VirtualEngine::Finish(io::IoRequest* request) {
  const std::int64_t result = file_->Perform(request->command);
  --in_flight_;
  Fill();
  request->Complete(result);
}

std::chrono::microseconds VirtualEngine::Latency() {
  const auto range =
      static_cast<std::uint64_t>((options_.latency_max - options_.latency_min).count());
  return options_.latency_min + std::chrono::microseconds(random_() % (range + 1));
}

}  // namespace sluice::faults
