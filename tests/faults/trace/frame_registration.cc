#include "tests/faults/trace/frame_registration.h"

#include "fmt/format.h"

namespace sluice::faults {
namespace {

/// Pieces of two pages, so that the kernel can refuse part of a piece.
constexpr std::uint64_t kPagesOfPiece = 2;

}  // namespace

FrameRegistration::FrameRegistration(StoreHost& host,
                                     std::span<std::byte> frames,
                                     std::uint64_t page_bytes,
                                     const testing::FaultPlan& plan,
                                     core::Verdict& verdict)
    : host_(host), plan_(plan), verdict_(verdict) {
  const std::size_t bytes = kPagesOfPiece * page_bytes;
  for (; !frames.empty(); frames = frames.subspan(bytes)) pieces_.push_back(frames.first(bytes));
}

void FrameRegistration::Advance(std::size_t step, std::size_t steps) {
  const bool turn = step % (steps / pieces_.size()) == 0;
  if (turn && registrations_ < pieces_.size()) RegisterNext();
}

void FrameRegistration::Repeat() {
  Check();
  RegisterAnew();
}

void FrameRegistration::RepeatHealed() {
  healed_ = true;
  RegisterAnew();
}

void FrameRegistration::RegisterNext() {
  host_.store().RegisterMemory(pieces_[registrations_++ % pieces_.size()]);
}

void FrameRegistration::RegisterAnew() {
  for (const std::span<std::byte> piece : pieces_) host_.store().UnregisterMemory(piece);
  if (host_.store().stats().registered_bytes > 0 || host_.known_bytes(0) > 0) {
    verdict_.Fail("memory that was unregistered is registered still");
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i) RegisterNext();
  Check();
}

void FrameRegistration::Check() {
  const io::PageStoreStats stats = host_.store().stats();
  const std::uint64_t expected = PassingBytes();
  if (stats.registered_bytes != expected) {
    verdict_.Fail(fmt::format("{} bytes are registered, not {}", stats.registered_bytes, expected));
  }
  if (host_.known_bytes(expected) != expected) verdict_.Fail("a disk knows other memory");
  const bool all = expected == pieces_.size() * pieces_.front().size();
  if (all != stats.registered_reason.empty()) {
    verdict_.Fail(all ? "nothing is refused, but told is: " + stats.registered_reason
                      : "memory is refused, and nobody is told");
  }
}

/// Registered bytes that the plan lets pass, in the last registration of each piece.
std::uint64_t FrameRegistration::PassingBytes() const {
  if (!host_.registers_memory()) return 0;
  std::uint64_t bytes = 0;
  for (std::uint64_t i = registrations_ - pieces_.size(); i < registrations_; ++i) {
    bytes += Refused(i) ? plan_.moved : pieces_.front().size();
  }
  return bytes;
}

bool FrameRegistration::Refused(std::uint64_t registration) const {
  if (healed_ || registration < plan_.operation) return false;
  return registration - plan_.operation < plan_.times;
}

}  // namespace sluice::faults
