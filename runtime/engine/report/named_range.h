#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::engine {

/// Addresses of tensors, known to the handler of NameStrayTouches while the object lives.
/// Threads: made and destroyed on any; the look-up takes no lock and allocates nothing, so that a
/// signal handler may do it.
class NamedRange {
 public:
  /// A tensor within the range; [begin, end) from its base.
  struct Part {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::string name;
  };
  struct Facts {
    const std::byte* base = nullptr;
    std::uint64_t bytes = 0;
    std::vector<Part> parts;
  };

  explicit NamedRange(Facts facts);
  /// Waits for look-ups that are under way.
  ~NamedRange();
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;

  /// Calls `tell(context, name, offset)` with the tensor at `address`, or with a null name where
  /// the range has padding. False: no range has the address. Async-signal-safe if `tell` is.
  using Tell = void (*)(void* context, const char* name, std::uint64_t offset);
  static bool Find(const void* address, Tell tell, void* context);

 private:
  struct Node;
  struct FreeNodes;
  static std::atomic<Node*>& Head();
  static FreeNodes& Free();
  static Node* TakeNode();

  const Facts facts_;
  Node* const node_;
};

}  // namespace sluice::engine
