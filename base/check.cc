#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace sluice::base {
namespace {

thread_local CheckObserver check_observer = nullptr;
thread_local void* check_observer_context = nullptr;

}  // namespace

void SetCheckObserver(CheckObserver observer, void* context) {
  check_observer = observer;
  check_observer_context = context;
}

void CheckFailed(const char* file, int line, const char* condition, const char* explanation) {
  char message[512];
  std::snprintf(message,
                sizeof(message),
                "sluice: check failed at %s:%d: %s (%s)",
                file,
                line,
                condition,
                explanation);
  std::fprintf(stderr, "%s\n", message);
  if (check_observer != nullptr) {
    CheckObserver observer = check_observer;
    check_observer = nullptr;
    observer(check_observer_context, message);
  }
  std::abort();
}

}  // namespace sluice::base
