#include "tests/runtime/engine/faulty_store.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice::testing {

class FaultyStore : public io::PageStore {
 public:
  FaultyStore(std::unique_ptr<io::PageStore> store, StoreFaults& faults)
      : store_(std::move(store)), faults_(faults) {}

  void Write(io::SlotIndex slot,
             const io::PageIdentity& identity,
             std::span<const std::byte> data,
             io::DoneFn done) override {
    faults_.NoteWrite(slot, identity);
    const absl::Status fault = faults_.BeginWrite(slot);
    if (!fault.ok()) return faults_.Finish(std::move(done), fault);
    store_->Write(
        slot, identity, data, [this, done = std::move(done)](absl::Status status) mutable {
          faults_.Finish(std::move(done), status);
        });
  }

  void Read(io::SlotIndex slot,
            const io::PageIdentity& identity,
            std::span<std::byte> data,
            io::DoneFn done) override {
    const absl::Status fault = faults_.BeginRead(identity);
    if (!fault.ok()) return faults_.Finish(std::move(done), fault);
    store_->Read(slot, identity, data, [this, done = std::move(done)](absl::Status status) mutable {
      faults_.Finish(std::move(done), status);
    });
  }

  void Hasten(io::SlotIndex slot) override {
    faults_.NoteHastened(slot);
    store_->Hasten(slot);
  }
  void Forget(io::SlotIndex slot) override { store_->Forget(slot); }
  void RegisterMemory(std::span<std::byte> memory) override { store_->RegisterMemory(memory); }
  void UnregisterMemory(std::span<std::byte> memory) override { store_->UnregisterMemory(memory); }
  absl::StatusOr<FilePart> FindPart(io::SlotIndex slot) const override {
    return store_->FindPart(slot);
  }
  absl::Status CheckMappable() const override {
    const absl::Status fault = faults_.MappingFault();
    return fault.ok() ? store_->CheckMappable() : fault;
  }
  io::PageStoreStats stats() const override { return faults_.Change(store_->stats()); }

 private:
  std::unique_ptr<io::PageStore> store_;
  StoreFaults& faults_;
};

void StoreFaults::FailReads(absl::Status status) {
  base::MutexLock lock(mutex_);
  read_fault_ = std::move(status);
  read_segment_.reset();
}

void StoreFaults::FailReadsOf(std::uint64_t segment, absl::Status status) {
  base::MutexLock lock(mutex_);
  read_fault_ = std::move(status);
  read_segment_ = segment;
}

void StoreFaults::SayCopied(std::string reason) {
  base::MutexLock lock(mutex_);
  copied_reason_ = std::move(reason);
}

io::PageStoreStats StoreFaults::Change(io::PageStoreStats stats) const {
  base::MutexLock lock(mutex_);
  if (copied_reason_.empty()) return stats;
  stats.nocow = false;
  stats.nocow_reason = copied_reason_;
  return stats;
}

void StoreFaults::FailWrites(absl::Status status) {
  base::MutexLock lock(mutex_);
  write_fault_ = std::move(status);
}

void StoreFaults::RefuseMapping(absl::Status status) {
  base::MutexLock lock(mutex_);
  mapping_fault_ = std::move(status);
}

absl::Status StoreFaults::MappingFault() const {
  base::MutexLock lock(mutex_);
  return mapping_fault_;
}

absl::Status StoreFaults::BeginRead(const io::PageIdentity& identity) {
  base::MutexLock lock(mutex_);
  ++in_flight_;
  if (read_segment_.has_value() && *read_segment_ != identity.segment) return absl::OkStatus();
  return read_fault_;
}

absl::Status StoreFaults::BeginWrite(io::SlotIndex slot) {
  base::MutexLock lock(mutex_);
  ++in_flight_;
  if (!write_fault_.ok()) return write_fault_;
  const bool is_full = !new_slot_fault_.ok() && used_.size() >= slots_max_;
  if (is_full && !used_.contains(slot)) return new_slot_fault_;
  used_.insert(slot);
  return absl::OkStatus();
}

void StoreFaults::FailNewSlots(std::size_t slots, absl::Status status) {
  base::MutexLock lock(mutex_);
  slots_max_ = slots;
  new_slot_fault_ = std::move(status);
}

std::size_t StoreFaults::slots_written() const {
  base::MutexLock lock(mutex_);
  return used_.size();
}

void StoreFaults::Hold() {
  base::MutexLock lock(mutex_);
  hold_ = true;
}

void StoreFaults::Release() {
  std::vector<absl::AnyInvocable<void()>> held;
  {
    base::MutexLock lock(mutex_);
    hold_ = false;
    held.swap(held_);
  }
  for (auto& finish : held) std::move(finish)();
}

void StoreFaults::WaitForHeld(std::size_t count) {
  base::MutexLock lock(mutex_);
  while (held_.size() < count) changed_.Wait(mutex_);
}

void StoreFaults::WaitForNoneInFlight() {
  base::MutexLock lock(mutex_);
  while (in_flight_ > 0) changed_.Wait(mutex_);
}

void StoreFaults::NoteWrite(io::SlotIndex slot, const io::PageIdentity& identity) {
  base::MutexLock lock(mutex_);
  slots_[slot] = identity;
  written_.push_back(identity);
}

void StoreFaults::NoteHastened(io::SlotIndex slot) {
  base::MutexLock lock(mutex_);
  hastened_.push_back(slots_[slot]);
  changed_.NotifyAll();
}

std::vector<io::PageIdentity> StoreFaults::written() const {
  base::MutexLock lock(mutex_);
  return written_;
}

std::vector<io::PageIdentity> StoreFaults::hastened() const {
  base::MutexLock lock(mutex_);
  return hastened_;
}

bool StoreFaults::WaitForHastened(const io::PageIdentity& identity) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  base::MutexLock lock(mutex_);
  bool in_time = true;
  while (std::find(hastened_.begin(), hastened_.end(), identity) == hastened_.end()) {
    if (!in_time) return false;
    in_time = changed_.WaitUntil(mutex_, deadline);
  }
  return true;
}

void StoreFaults::Finish(io::DoneFn done, absl::Status status) {
  {
    base::MutexLock lock(mutex_);
    if (hold_) {
      held_.push_back(
          [this, done = std::move(done), status]() mutable { Answer(std::move(done), status); });
      changed_.NotifyAll();
      return;
    }
  }
  Answer(std::move(done), status);
}

void StoreFaults::Answer(io::DoneFn done, absl::Status status) {
  done(std::move(status));
  base::MutexLock lock(mutex_);
  --in_flight_;
  changed_.NotifyAll();
}

std::unique_ptr<io::PageStore> StoreFaults::Wrap(std::unique_ptr<io::PageStore> store) {
  return std::make_unique<FaultyStore>(std::move(store), *this);
}

}  // namespace sluice::testing
