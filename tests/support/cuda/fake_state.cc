#include "tests/support/cuda/fake_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "fmt/format.h"

namespace sluice::testing {

using device::CudaCode;
using device::CudaStream;
using device::kCudaSuccess;

FakeState::FakeState(const FakeCudaOptions& all_options)
    : options(all_options),
      space({.devices = options.devices,
             .granularity = options.facts.granularity,
             .pages = options.address_pages,
             .memory_bytes = options.facts.memory_bytes,
             .garbage = options.garbage}) {
  SLUICE_CHECK(pthread_key_create(&thread_key_, nullptr) == 0, "threads need states of their own");
  for (int ordinal = 0; ordinal < options.devices; ++ordinal) {
    contexts_.push_back(std::make_unique<FakeContext>(
        FakeContext::Options{.ordinal = ordinal,
                             .seed = options.seed + 1000 * static_cast<std::uint64_t>(ordinal),
                             .delay_max = options.delay_max}));
  }
}

FakeState::~FakeState() {
  KillAll(device::kCudaDeinitialized);
  contexts_.clear();
  pthread_key_delete(thread_key_);
}

CudaCode FakeState::Count(FakeEntry entry) {
  if (!owner_.IsThis()) {
    return kFakeNotInitialized;
  }
  FakeInjection injection;
  if (!calls.Count(entry, &injection)) {
    return kCudaSuccess;
  }
  if (injection.sticky) {
    KillAll(injection.code);
    WaitForAllWork();
  }
  return injection.code;
}

CudaCode FakeState::Begin(FakeEntry entry, FakeContext** context) {
  const CudaCode code = Count(entry);
  return code != kCudaSuccess ? code : Current(context);
}

CudaCode FakeState::BeginUnsafe(FakeEntry entry, FakeContext** context) {
  const CudaCode code = Begin(entry, context);
  return code != kCudaSuccess ? code : ForbidUnsafe();
}

CudaCode FakeState::Current(FakeContext** context) {
  const FakeThread& caller = thread();
  if (caller.contexts.empty() || caller.contexts.back()->shares().load() == 0) {
    return device::kCudaInvalidContext;
  }
  *context = caller.contexts.back();
  return (*context)->Error();
}

FakeThread& FakeState::thread() {
  auto* found = static_cast<FakeThread*>(pthread_getspecific(thread_key_));
  if (found == nullptr) {
    const base::MutexLock lock(mutex_);
    found = &threads_.emplace_back();
    pthread_setspecific(thread_key_, found);
  }
  return *found;
}

FakeContext* FakeState::context(int ordinal) {
  return ordinal < 0 || ordinal >= options.devices
             ? nullptr
             : contexts_[static_cast<std::size_t>(ordinal)].get();
}

void FakeState::WaitForAllWork() {
  for (const auto& context : contexts_) {
    context->WaitForAllWork();
  }
}

void FakeState::KillAll(CudaCode code) {
  for (const auto& context : contexts_) {
    context->fate().Kill(code);
  }
}

FakeEvent& FakeState::MakeEvent() {
  const base::MutexLock lock(mutex_);
  return events_.emplace_back();
}

FakeStream* FakeState::Find(FakeContext& context, CudaStream handle) {
  if (handle == device::kCudaLegacyStream || reinterpret_cast<std::uintptr_t>(handle) == 1) {
    return &context.legacy();
  }
  if (handle == device::CudaPerThreadStream()) {
    FakeStream*& own = thread().streams[&context];
    if (own == nullptr) {
      own = &context.MakeStream(true, false);
    }
    return own;
  }
  auto* stream = reinterpret_cast<FakeStream*>(handle);
  return stream->open() ? stream : nullptr;
}

FakeEvent* FakeState::Find(device::CudaEvent handle) {
  auto* event = reinterpret_cast<FakeEvent*>(handle);
  return event != nullptr && event->open.load(std::memory_order_relaxed) ? event : nullptr;
}

int FakeState::OpenEvents() {
  const base::MutexLock lock(mutex_);
  return static_cast<int>(std::count_if(
      events_.begin(), events_.end(), [](const FakeEvent& event) { return event.open.load(); }));
}

int FakeState::OpenGraphs() {
  const base::MutexLock lock(mutex_);
  return static_cast<int>(std::count_if(
      graphs_.begin(), graphs_.end(), [](const FakeGraph& graph) { return graph.alive.load(); }));
}

std::vector<std::string> FakeState::Leaks() {
  std::vector<std::string> leaks;
  bool all_live = true;
  for (const auto& context : contexts_) {
    if (context->shares().load() > 0) {
      leaks.push_back(fmt::format("context of device {}", context->ordinal()));
    }
    if (context->fate().error() != kCudaSuccess) {
      all_live = false;
    } else if (const int streams = context->LeakedStreams(); streams > 0) {
      leaks.push_back(fmt::format("{} streams of device {}", streams, context->ordinal()));
    }
  }
  // A dead context refuses the calls that give these objects back.
  if (!all_live) {
    return leaks;
  }
  if (const int events = OpenEvents(); events > 0) {
    leaks.push_back(fmt::format("{} events", events));
  }
  if (const int graphs = OpenGraphs(); graphs > 0) {
    leaks.push_back(fmt::format("{} graphs", graphs));
  }
  for (const auto& more : {space.Leaks(), registrations.Leaks()}) {
    leaks.insert(leaks.end(), more.begin(), more.end());
  }
  const base::MutexLock lock(mutex_);
  for (const FakeThread& thread : threads_) {
    if (!thread.contexts.empty()) {
      leaks.push_back(fmt::format("{} contexts pushed by a thread", thread.contexts.size()));
    }
  }
  return leaks;
}

}  // namespace sluice::testing
