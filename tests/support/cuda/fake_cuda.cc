#include "tests/support/cuda/fake_cuda.h"

#include "base/check.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/fake_state.h"

namespace sluice::testing {

using device::CudaCode;

FakeCuda::FakeCuda(const FakeCudaOptions& options)
    : state_(std::make_unique<FakeState>(options)),
      driver_(std::make_unique<FakeDriver>(*state_)) {}

FakeCuda::~FakeCuda() = default;

device::CudaApi& FakeCuda::api() { return *driver_; }

void FakeCuda::Inject(const FakeInjection& injection) { state_->calls.Inject(injection); }

std::optional<FakeEntry> FakeCuda::injected() const { return state_->calls.injected(); }

void FakeCuda::FailWork(std::uint64_t nth, CudaCode code, int ordinal) {
  state_->context(ordinal)->fate().FailWork(static_cast<std::int64_t>(nth), code);
}

void FakeCuda::TakeMemory(std::int64_t bytes, int ordinal) {
  state_->space.TakeAway(ordinal, bytes);
}

std::uint64_t FakeCuda::calls() const { return state_->calls.calls(); }

std::uint64_t FakeCuda::calls(FakeEntry entry) const { return state_->calls.calls(entry); }

std::uint64_t FakeCuda::bytes_in() const { return state_->counters.bytes_in.load(); }

std::uint64_t FakeCuda::bytes_out() const { return state_->counters.bytes_out.load(); }

std::uint64_t FakeCuda::blocking_copies() const { return state_->counters.blocking_copies.load(); }

int FakeCuda::most_copies_in() const { return state_->counters.copies_in.most(); }

int FakeCuda::most_copies_out() const { return state_->counters.copies_out.most(); }

std::uint64_t FakeCuda::ended_work(int ordinal) const {
  return state_->context(ordinal)->fate().ended_work();
}

std::vector<std::byte> FakeCuda::Peek(const std::byte* address, std::uint64_t bytes) const {
  std::vector<std::byte> peeked;
  for (int ordinal = 0; ordinal < state_->options.devices && peeked.empty(); ++ordinal) {
    for (const FakePiece& piece :
         state_->space.Translate(address, bytes, ordinal, FakeUse::kRead)) {
      peeked.insert(peeked.end(), piece.storage, piece.storage + piece.bytes);
    }
  }
  SLUICE_CHECK(peeked.size() == bytes, "the test looks at addresses that are mapped");
  return peeked;
}

std::vector<std::string> FakeCuda::Leaks() const { return state_->Leaks(); }

}  // namespace sluice::testing
