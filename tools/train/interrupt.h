#pragma once

namespace sluice::tools {

/// While it lives, the first SIGINT is only noted; the second one ends the process, as without it.
/// At most one at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  bool interrupted() const;
};

}  // namespace sluice::tools
