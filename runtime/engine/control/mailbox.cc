#include "runtime/engine/control/mailbox.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace sluice::engine {

Mailbox::Mailbox(std::size_t capacity) : capacity_(capacity) {
  SLUICE_CHECK(capacity > 0, "the request queue holds at least one request");
}

void Mailbox::AppendLocked(Message message) {
  items_.push_back(std::move(message));
  not_empty_.NotifyOne();
}

bool Mailbox::Push(Message request) {
  base::MutexLock lock(mutex_);
  while (!requests_closed_ && (requests_ >= capacity_ || !aside_.empty())) not_full_.Wait(mutex_);
  if (requests_closed_) return false;
  ++requests_;
  AppendLocked(std::move(request));
  return true;
}

bool Mailbox::Offer(AcquireRequest request, std::span<const ReleaseNotice> before) {
  base::MutexLock lock(mutex_);
  if (!closed_) items_.insert(items_.end(), before.begin(), before.end());
  const bool open = !requests_closed_;
  const bool aside = requests_ >= capacity_ || !aside_.empty();
  if (open && aside) {
    aside_.push_back(std::move(request));
  } else if (open) {
    ++requests_;
    items_.push_back(std::move(request));
  }
  not_empty_.NotifyOne();
  return open;
}

bool Mailbox::Withdraw(core::TicketNumber ticket) {
  base::MutexLock lock(mutex_);
  const auto found = std::find_if(aside_.begin(), aside_.end(), [ticket](const auto& request) {
    return request.event.ticket == ticket;
  });
  if (found == aside_.end()) return false;
  aside_.erase(found);
  if (aside_.empty()) not_full_.NotifyAll();
  return true;
}

void Mailbox::Post(Message notice) {
  base::MutexLock lock(mutex_);
  if (!closed_) AppendLocked(std::move(notice));
}

void Mailbox::RefillLocked() {
  while (!aside_.empty() && requests_ < capacity_) {
    ++requests_;
    AppendLocked(std::move(aside_.front()));
    aside_.pop_front();
  }
  not_full_.NotifyAll();
}

void Mailbox::PopAll(std::vector<Message>* out, Deadline deadline) {
  base::MutexLock lock(mutex_);
  while (items_.empty() && !closed_) {
    if (deadline == Deadline::max()) {
      not_empty_.Wait(mutex_);
    } else if (!not_empty_.WaitUntil(mutex_, deadline)) {
      break;
    }
  }
  std::move(items_.begin(), items_.end(), std::back_inserter(*out));
  items_.clear();
  requests_ = 0;
  RefillLocked();
}

std::vector<AcquireRequest> Mailbox::CloseRequests() {
  base::MutexLock lock(mutex_);
  requests_closed_ = true;
  std::vector<AcquireRequest> left(std::make_move_iterator(aside_.begin()),
                                   std::make_move_iterator(aside_.end()));
  aside_.clear();
  not_full_.NotifyAll();
  return left;
}

void Mailbox::Close() {
  std::deque<Message> dropped;  // destroyed outside of the lock: a message may hold a lease
  base::MutexLock lock(mutex_);
  requests_closed_ = closed_ = true;
  dropped.swap(items_);
  not_full_.NotifyAll();
  not_empty_.NotifyAll();
}

}  // namespace sluice::engine
