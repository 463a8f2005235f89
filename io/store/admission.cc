#include "io/store/admission.h"

#include "base/check.h"

namespace sluice::io {
namespace {

thread_local ThreadRole current_role = ThreadRole::kCaller;

}  // namespace

ScopedThreadRole::ScopedThreadRole(ThreadRole role) : before_(current_role) { current_role = role; }
ScopedThreadRole::~ScopedThreadRole() { current_role = before_; }
ThreadRole ScopedThreadRole::Current() { return current_role; }

void Admission::Enter() {
  base::MutexLock lock(mutex_);
  if (ScopedThreadRole::Current() == ThreadRole::kCaller) {
    while (outstanding_ >= operations_max_) changed_.Wait(mutex_);
  }
  ++outstanding_;
}

void Admission::Leave() {
  base::MutexLock lock(mutex_);
  SLUICE_CHECK(outstanding_ > 0, "an operation that leaves has entered");
  --outstanding_;
  changed_.NotifyAll();
}

void Admission::Drain() {
  SLUICE_CHECK(ScopedThreadRole::Current() == ThreadRole::kCaller,
               "a page store is not destroyed by its own callbacks");
  base::MutexLock lock(mutex_);
  while (outstanding_ > 0) {
    changed_.Wait(mutex_);
  }
}

}  // namespace sluice::io
