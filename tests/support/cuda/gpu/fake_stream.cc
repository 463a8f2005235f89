#include "tests/support/cuda/gpu/fake_stream.h"

#include <utility>

#include "base/check.h"

namespace sluice::testing {

using device::CudaCode;
using device::kCudaSuccess;

void FakeInFlight::Enter() {
  const int now = now_.fetch_add(1, std::memory_order_relaxed) + 1;
  int most = most_.load(std::memory_order_relaxed);
  while (most < now && !most_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

FakeStream::FakeStream(FakeFate& fate, const Options& options)
    : fate_(fate), options_(options), random_(options.seed), newest_(new Node) {
  thread_ = std::thread([this, first = newest_] { Run(first); });
}

FakeStream::~FakeStream() {
  Close();
  thread_.join();
}

void FakeStream::Append(FakeItem item, bool last) {
  Node* node = new Node{.item = std::move(item), .last = last};
  newest_->next.store(node, std::memory_order_release);
  newest_ = node;
}

void FakeStream::Wake() {
  pushes_.fetch_add(1, std::memory_order_relaxed);
  WakeWord(pushes_);
}

void FakeStream::Push(std::vector<FakeItem> items) {
  {
    const base::MutexLock lock(mutex_);
    SLUICE_CHECK(open(), "a stream that was destroyed takes no work");
    for (FakeItem& item : items) {
      if (item.in_flight != nullptr) {
        item.in_flight->Enter();
      }
      Append(std::move(item), false);
    }
  }
  Wake();
}

const FakeFlag& FakeStream::Mark() {
  FakeFlag* flag = nullptr;
  {
    const base::MutexLock lock(mutex_);
    if (!open()) {
      return ended_;
    }
    flag = &marks_.emplace_back();
    Append({.done = flag}, false);
  }
  Wake();
  return *flag;
}

void FakeStream::Close() {
  {
    const base::MutexLock lock(mutex_);
    if (!open_.exchange(false, std::memory_order_relaxed)) {
      return;
    }
    Append({.done = &ended_}, true);
  }
  Wake();
}

FakeStream::Node* FakeStream::AwaitNext(const Node& node) {
  for (;;) {
    const std::uint32_t pushes = pushes_.load(std::memory_order_relaxed);
    if (Node* next = node.next.load(std::memory_order_acquire); next != nullptr) {
      return next;
    }
    SleepOnWord(pushes_, pushes);
  }
}

void FakeStream::Run(Node* first) {
  Node* node = first;
  while (!node->last) {
    Node* next = AwaitNext(*node);
    delete node;
    node = next;
    RunItem(node->item);
    node->item.work = nullptr;
  }
  delete node;
}

void FakeStream::RunItem(const FakeItem& item) {
  if (item.wait != nullptr) {
    item.wait->Wait();
  }
  if (item.work != nullptr) {
    Delay();
    if (fate_.error() == kCudaSuccess) {
      CudaCode code = fate_.StartWork();
      if (code == kCudaSuccess) {
        code = item.work();
      }
      if (code != kCudaSuccess) {
        fate_.Kill(code);
      }
      fate_.EndWork();
    }
  }
  if (item.in_flight != nullptr) {
    item.in_flight->Leave();
  }
  if (item.done != nullptr) {
    item.done->Set();
  }
}

void FakeStream::Delay() {
  const auto limit = static_cast<std::uint64_t>(options_.delay_max.count());
  if (limit == 0 || random_() % 2 == 0) {
    return;
  }
  if (random_() % 2 == 0) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % limit));
  }
}

}  // namespace sluice::testing
