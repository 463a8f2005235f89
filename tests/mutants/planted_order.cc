#include "io/store/planted_order.h"

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace sluice::io {
namespace {

/// Later operations that make one late: more than overtake any without a fault.
constexpr int kOvertakenMax = 64;

/// The operations of each store that were not told, the oldest first. Threads: any.
class Lines {
 public:
  std::uint64_t Join(const void* store, DoneFn done) {
    base::MutexLock lock(mutex_);
    lines_[store].push_back({.number = ++last_number_, .done = std::move(done)});
    return last_number_;
  }

  DoneFn TakeOldest(const void* store) {
    base::MutexLock lock(mutex_);
    DoneFn done = std::move(lines_[store].front().done);
    lines_[store].pop_front();
    return done;
  }

  /// Null when it was told.
  DoneFn Take(const void* store, std::uint64_t number) {
    base::MutexLock lock(mutex_);
    DoneFn done;
    for (Waiting& each : lines_[store]) {
      if (each.number == number) done = std::exchange(each.done, nullptr);
    }
    RemoveTold(store);
    return done;
  }

  /// Those that one with this number, which ends, makes late.
  std::vector<DoneFn> TakeLate(const void* store, std::uint64_t number) {
    base::MutexLock lock(mutex_);
    std::vector<DoneFn> late;
    for (Waiting& each : lines_[store]) {
      if (each.number < number && ++each.overtaken >= kOvertakenMax) {
        late.push_back(std::exchange(each.done, nullptr));
      }
    }
    RemoveTold(store);
    return late;
  }

 private:
  struct Waiting {
    std::uint64_t number = 0;
    DoneFn done;
    int overtaken = 0;
  };

  void RemoveTold(const void* store) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(lines_[store], [](const Waiting& each) { return each.done == nullptr; });
  }

  base::Mutex mutex_;
  std::map<const void*, std::deque<Waiting>> lines_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
};

Lines& AllLines() {
  static Lines lines;
  return lines;
}

}  // namespace

DoneFn TellTheOldest(const void* store, DoneFn done) {
  AllLines().Join(store, std::move(done));
  return [store](absl::Status status) { AllLines().TakeOldest(store)(std::move(status)); };
}

DoneFn GiveUpWhatIsLate(const void* store, DoneFn done) {
  const std::uint64_t number = AllLines().Join(store, std::move(done));
  return [store, number](absl::Status status) {
    for (DoneFn& late : AllLines().TakeLate(store, number)) late(absl::OkStatus());
    DoneFn own = AllLines().Take(store, number);
    if (own != nullptr) own(std::move(status));
  };
}

}  // namespace sluice::io
