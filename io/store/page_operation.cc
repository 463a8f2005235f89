#include "io/store/page_operation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/strings.h"
#include "fmt/format.h"
#include "io/store/checksum.h"
#include "io/store/medium_fault.h"
#include "io/store/page_errors.h"

namespace sluice::io {
namespace {

/// Largest piece of the page cache, which drops none in part. Pieces that stick out of a page on
/// either side are dropped with it.
constexpr std::uint64_t kCachePieceBytesMax = std::uint64_t{4} << 20;

/// One page on its way. Owns itself: deleted once `done` has returned.
class PageOperation : public Transfer {
 public:
  PageOperation(StoreContext& context, const PageAddress& address, DoneFn done)
      : Transfer(context.engine, context.counters.transfer, context.backoff, context.timer),
        context_(context),
        address_(address),
        place_(context.files.At(context.page_bytes * address.place)),
        done_(std::move(done)) {
    context.meter.Begin();
  }
  virtual ~PageOperation() = default;

 protected:
  void TransferPage(IoDirection direction, std::byte* data) {
    StartTransfer({.direction = direction,
                   .file = place_.file,
                   .offset = place_.offset,
                   .data = data,
                   .bytes = context_.page_bytes,
                   .hastened = &context_.slots.hastened(address_.place)});
  }

  bool buffered() const { return place_.file->buffered; }
  WriteBackLine& write_backs() { return context_.WriteBacksOf(*place_.file); }

  /// `hastened`: as of IoCommand.
  void DropFromCache(std::byte* data, const std::atomic<bool>* hastened) {
    const std::uint64_t begin = place_.offset;
    const std::uint64_t first = begin - std::min(begin, kCachePieceBytesMax);
    const std::uint64_t end =
        std::min(place_.file->bytes, begin + context_.page_bytes + kCachePieceBytesMax);
    StartTransfer({.direction = IoDirection::kDropCache,
                   .file = place_.file,
                   .offset = first,
                   .data = data,
                   .bytes = end - first,
                   .hastened = hastened});
  }

  /// REQUIRES: the slot table knows the outcome.
  void Finish(absl::Status status, ThreadRole role) {
    Admission& admission = context_.admission;
    context_.meter.End(status.ok() ? context_.page_bytes : 0);
    {
      const ScopedThreadRole scope(role);
      CallDone(context_, std::move(status), std::move(done_));
    }
    delete this;
    // The store may be destroyed once this operation has left, so nothing follows.
    admission.Leave();
  }

  StoreContext& context_;
  const PageAddress address_;

 private:
  const SpillFiles::FileOffset place_;
  DoneFn done_;
};

class WriteOperation final : public PageOperation, private WriteBackLine::Waiter {
 public:
  WriteOperation(StoreContext& context,
                 const PageAddress& address,
                 std::span<const std::byte> data,
                 DoneFn done)
      : PageOperation(context, address, std::move(done)), data_(data) {}

  /// Starts the disk's write and a worker's hash beside each other. The later one ends the
  /// operation.
  static void Start(WriteOperation* operation) {
    StoreContext& context = operation->context_;
    if (operation->buffered()) operation->write_backs().Begin(operation);
    operation->Move(IoDirection::kWrite);
    // The operation is still there, as the hash is missing.
    RunOnWorker(context, [operation] { operation->Hash(); });
  }

 private:
  void Hash() {
    checksum_ = PageChecksum(address_.identity, data_);
    EndPart(ThreadRole::kWorker);
  }

  // The engine only reads the memory of a write.
  std::byte* memory() const { return const_cast<std::byte*>(data_.data()); }

  void Move(IoDirection step) {
    step_ = step;
    TransferPage(step, memory());
  }

  /// A page in a buffered file is written to the medium, and then leaves the page cache. So errors
  /// of the medium are heard here, and the cache holds no more than I/O in flight.
  void OnTransferred(const TransferResult& result) override {
    if (step_ == IoDirection::kDropCache) return EndPart(ThreadRole::kIoThread);
    result_ = result;
    if (!buffered()) {
      return EndPart(ThreadRole::kIoThread);
    }
    const bool done = result.kind == TransferResult::Kind::kDone;
    if (!in_turn_) return done ? write_backs().Join(this) : EndPart(ThreadRole::kIoThread);
    if (done && step_ == IoDirection::kWrite) return Move(IoDirection::kWriteBack);
    write_backs().Leave(done ? WriteBackLine::Outcome::kDone : WriteBackLine::Outcome::kFailed);
  }

  void TakeTurn(WriteBackLine::Turn turn) override {
    in_turn_ = true;
    Move(turn == WriteBackLine::Turn::kWriteAgain ? IoDirection::kWrite : IoDirection::kWriteBack);
  }

  void EndTurns() override {
    if (result_.kind != TransferResult::Kind::kDone) return EndPart(ThreadRole::kIoThread);
    step_ = IoDirection::kDropCache;
    DropFromCache(memory(), &context_.slots.hastened(address_.place));
  }

  void EndPart(ThreadRole role) {
    if (parts_.fetch_sub(1, std::memory_order_acq_rel) == 1) End(role);
  }

  void End(ThreadRole role) {
    const bool done = result_.kind == TransferResult::Kind::kDone;
    if (done) {
      context_.slots.EndWrite(address_.slot, address_.identity, checksum_);
    } else {
      context_.slots.AbandonWrite(address_.slot);
    }
    if (!done) return Finish(DescribeStop(result_), role);
    context_.counters.writes.fetch_add(1, std::memory_order_relaxed);
    Finish(absl::OkStatus(), role);
  }

  absl::Status DescribeStop(const TransferResult& result) const {
    if (result.kind == TransferResult::Kind::kFailed) {
      return DescribeFailure(address_, IoDirection::kWrite, result);
    }
    return absl::InternalError(
        base::ToAbsl(Describe(address_, "write stopped: the kernel moves no more bytes")));
  }

  const std::span<const std::byte> data_;
  std::uint64_t checksum_ = 0;
  IoDirection step_ = IoDirection::kWrite;
  bool in_turn_ = false;  ///< true while the page is in its file's turn of write-backs
  TransferResult result_;
  std::atomic<int> parts_{2};
};

class ReadOperation final : public PageOperation {
 public:
  ReadOperation(StoreContext& context,
                const PageAddress& address,
                std::uint64_t checksum,
                std::span<std::byte> data,
                DoneFn done)
      : PageOperation(context, address, std::move(done)), data_(data), checksum_(checksum) {}

  void Submit() {
    step_ = IoDirection::kRead;
    TransferPage(step_, data_.data());
  }

 private:
  void OnTransferred(const TransferResult& result) override {
    // A page that stays in the page cache costs memory, not bytes.
    if (step_ == IoDirection::kDropCache) return VerifyOnWorker();
    switch (result.kind) {
      case TransferResult::Kind::kDone:
        if (!buffered()) return VerifyOnWorker();
        step_ = IoDirection::kDropCache;
        return DropFromCache(data_.data(), nullptr);
      case TransferResult::Kind::kTruncated:
        return End(Lost("the file ends before the page (truncated)"), ThreadRole::kIoThread);
      case TransferResult::Kind::kFailed:
        return End(DescribeFailure(address_, IoDirection::kRead, result), ThreadRole::kIoThread);
    }
  }

  void VerifyOnWorker() {
    RunOnWorker(context_, [this] { Verify(); });
  }

  void Verify() {
    const std::uint64_t found = PageChecksum(address_.identity, data_);
    if (found == checksum_) return End(absl::OkStatus(), ThreadRole::kWorker);
    context_.counters.checksum_failures.fetch_add(1, std::memory_order_relaxed);
    // A second read: memory or a bus may have failed on the way, not the medium.
    if (!std::exchange(read_again_, true)) return Submit();
    End(MarkMediumFault(
            Lost(fmt::format("checksum {:016x} instead of {:016x}, read twice", found, checksum_))),
        ThreadRole::kWorker);
  }

  void End(absl::Status status, ThreadRole role) {
    context_.slots.EndRead(address_.slot,
                           IsMediumFault(status) ? SlotTable::ReadEnd::kPlaceLostPage
                                                 : SlotTable::ReadEnd::kPlaceIsGood);
    if (status.ok()) context_.counters.reads.fetch_add(1, std::memory_order_relaxed);
    Finish(std::move(status), role);
  }

  absl::Status Lost(std::string_view why) const {
    return absl::DataLossError(base::ToAbsl(Describe(address_, why)));
  }

  const std::span<std::byte> data_;
  const std::uint64_t checksum_;
  IoDirection step_ = IoDirection::kRead;
  bool read_again_ = false;
};

}  // namespace

void CallDone(const StoreContext& context, absl::Status status, DoneFn done) {
  if (!context.marks_errors) Unmark(&status);
  std::move(done)(std::move(status));
}

void RunOnWorker(StoreContext& context, base::WorkerPool::Job job) {
  if (ScopedThreadRole::Current() == ThreadRole::kWorker) {
    std::move(job)();
    return;
  }
  context.workers.Submit([job = std::move(job)]() mutable {
    const ScopedThreadRole scope(ThreadRole::kWorker);
    std::move(job)();
  });
}

void StartWrite(StoreContext& context,
                const PageAddress& address,
                std::span<const std::byte> data,
                DoneFn done) {
  WriteOperation::Start(new WriteOperation(context, address, data, std::move(done)));
}

void StartRead(StoreContext& context,
               const PageAddress& address,
               std::uint64_t checksum,
               std::span<std::byte> data,
               DoneFn done) {
  (new ReadOperation(context, address, checksum, data, std::move(done)))->Submit();
}

}  // namespace sluice::io
