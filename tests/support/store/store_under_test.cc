#include "tests/support/store/store_under_test.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "tests/support/store/page_buffer.h"

namespace sluice::testing {
namespace {

absl::StatusOr<io::PageStoreParts> MakeParts(const StoreSpec& spec,
                                             const std::shared_ptr<MemoryFile>& memory) {
  if (spec.kind == StoreKind::kMemory) {
    return io::PageStoreParts{.engine = MakeMemoryEngine(memory), .engine_reason = "in memory"};
  }
  return io::MakePageStoreParts(spec.options);
}

}  // namespace

std::string ToString(StoreKind kind) {
  switch (kind) {
    case StoreKind::kUring:
      return "Uring";
    case StoreKind::kThreads:
      return "Threads";
    case StoreKind::kBuffered:
      return "Buffered";
    case StoreKind::kMemory:
      return "Memory";
  }
  return "";
}

StoreUnderTest::StoreUnderTest(const StoreSpec& spec) : page_bytes_(spec.options.page_bytes) {
  memory_ = std::make_shared<MemoryFile>(page_bytes_ * io::PlacesOf(spec.options));
  Open(spec);
}

StoreUnderTest::~StoreUnderTest() {
  store_.reset();
  if (fd_ >= 0) close(fd_);
}

void StoreUnderTest::Open(StoreSpec spec) {
  spec.options.directory = directory_.path();
  spec.options.io_uring = spec.kind == StoreKind::kUring ? Use::kRequire : Use::kAuto;
  if (spec.kind == StoreKind::kThreads) spec.options.io_uring = Use::kOff;
  if (spec.kind == StoreKind::kUring || spec.kind == StoreKind::kThreads) {
    spec.options.direct = Use::kRequire;
  }
  if (spec.kind == StoreKind::kBuffered) spec.options.direct = Use::kOff;
  absl::StatusOr<io::PageStoreParts> parts = MakeParts(spec, memory_);
  if (!parts.ok()) {
    unavailable_ = std::string(base::ToStd(parts.status().message()));
    SLUICE_CHECK(absl::IsFailedPrecondition(parts.status()), unavailable_.c_str());
    return;
  }
  if (parts->files) fd_ = dup(parts->files->At(0).file->fd);
  if (spec.wrap) parts->engine = spec.wrap(std::move(parts->engine));
  store_ = io::AssemblePageStore(spec.options, *std::move(parts), workers_);
}

absl::Status StoreUnderTest::Write(io::SlotIndex slot,
                                   const io::PageIdentity& identity,
                                   std::span<const std::byte> data) {
  // Shared: the callback may still be inside set_value when the result is out.
  auto done = std::make_shared<std::promise<absl::Status>>();
  store_->Write(slot, identity, data, [done](absl::Status s) { done->set_value(std::move(s)); });
  return done->get_future().get();
}

absl::Status StoreUnderTest::Read(io::SlotIndex slot,
                                  const io::PageIdentity& identity,
                                  std::span<std::byte> data) {
  // Shared: the callback may still be inside set_value when the result is out.
  auto done = std::make_shared<std::promise<absl::Status>>();
  store_->Read(slot, identity, data, [done](absl::Status s) { done->set_value(std::move(s)); });
  return done->get_future().get();
}

std::string StoreUnderTest::RemoveDirectory() {
  return rmdir(directory_.path().c_str()) == 0 ? "" : std::strerror(errno);
}

std::uint64_t StoreUnderTest::OffsetOf(io::SlotIndex slot) const {
  const absl::StatusOr<io::PageStore::FilePart> part = store_->FindPart(slot);
  SLUICE_CHECK(part.ok(), "a test tampers with a page that is there");
  return part->offset;
}

void StoreUnderTest::FlipByte(io::SlotIndex slot, std::size_t at) {
  if (fd_ < 0) return memory_->Flip(OffsetOf(slot) + at);
  PageBuffer page(page_bytes_);
  MoveSlot(slot, io::IoDirection::kRead, page.span().data());
  page.span()[at] = ~page.span()[at];
  MoveSlot(slot, io::IoDirection::kWrite, page.span().data());
}

void StoreUnderTest::SwapSlots(io::SlotIndex a, io::SlotIndex b) {
  if (fd_ < 0) return memory_->Swap(OffsetOf(a), OffsetOf(b), page_bytes_);
  PageBuffer page_a(page_bytes_);
  PageBuffer page_b(page_bytes_);
  MoveSlot(a, io::IoDirection::kRead, page_a.span().data());
  MoveSlot(b, io::IoDirection::kRead, page_b.span().data());
  MoveSlot(a, io::IoDirection::kWrite, page_b.span().data());
  MoveSlot(b, io::IoDirection::kWrite, page_a.span().data());
}

void StoreUnderTest::Truncate(std::size_t bytes) {
  if (fd_ < 0) return memory_->Truncate(bytes);
  SLUICE_CHECK(ftruncate(fd_, static_cast<off_t>(bytes)) == 0, "a test can truncate its file");
}

void StoreUnderTest::MoveSlot(io::SlotIndex slot, io::IoDirection direction, std::byte* data) {
  const auto offset = static_cast<off_t>(OffsetOf(slot));
  const ssize_t moved = direction == io::IoDirection::kRead
                            ? pread(fd_, data, page_bytes_, offset)
                            : pwrite(fd_, data, page_bytes_, offset);
  SLUICE_CHECK(moved == static_cast<ssize_t>(page_bytes_), "a test can tamper with its file");
}

}  // namespace sluice::testing
