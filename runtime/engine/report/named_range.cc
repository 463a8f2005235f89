#include "runtime/engine/report/named_range.h"

#include <thread>
#include <utility>

#include "base/mutex.h"

namespace sluice::engine {

/// A place in the list of all ranges. It is used again, and never freed: a handler may stand on it.
struct NamedRange::Node {
  std::atomic<const Facts*> facts{nullptr};
  std::atomic<std::uint32_t> readers{0};
  Node* next = nullptr;
};

struct NamedRange::FreeNodes {
  base::Mutex mutex;
  std::vector<Node*> nodes ABSL_GUARDED_BY(mutex);
};

std::atomic<NamedRange::Node*>& NamedRange::Head() {
  // Constant initialisation: the handler needs no guard.
  static constinit std::atomic<Node*> head{nullptr};
  return head;
}

NamedRange::FreeNodes& NamedRange::Free() {
  static FreeNodes* const kFree = new FreeNodes();  // ranges may outlive statics
  return *kFree;
}

NamedRange::Node* NamedRange::TakeNode() {
  FreeNodes& free = Free();
  const base::MutexLock lock(free.mutex);
  if (!free.nodes.empty()) {
    Node* const node = free.nodes.back();
    free.nodes.pop_back();
    return node;
  }
  Node* const node = new Node();
  node->next = Head().load();
  Head().store(node);
  return node;
}

NamedRange::NamedRange(Facts facts) : facts_(std::move(facts)), node_(TakeNode()) {
  node_->facts.store(&facts_);
}

NamedRange::~NamedRange() {
  node_->facts.store(nullptr);
  while (node_->readers.load() > 0) std::this_thread::yield();
  FreeNodes& free = Free();
  const base::MutexLock lock(free.mutex);
  free.nodes.push_back(node_);
}

bool NamedRange::Find(const void* address, Tell tell, void* context) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (Node* node = Head().load(); node != nullptr; node = node->next) {
    ++node->readers;
    const Facts* const facts = node->facts.load();
    const auto base = facts == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(facts->base);
    const bool found = facts != nullptr && at >= base && at - base < facts->bytes;
    if (found) {
      const std::uint64_t offset = at - base;
      const Part* part = nullptr;
      for (const Part& each : facts->parts) {
        if (offset >= each.begin && offset < each.end) part = &each;
      }
      tell(context,
           part == nullptr ? nullptr : part->name.c_str(),
           part == nullptr ? offset : offset - part->begin);
    }
    --node->readers;
    if (found) return true;
  }
  return false;
}

}  // namespace sluice::engine
