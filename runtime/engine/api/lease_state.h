#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/engine/control/mailbox.h"
#include "sluice/tensor.h"
#include "sluice/tier.h"

namespace sluice::internal {

/// A pin; its destruction gives it back. Threads: destroyed on any thread.
class LeaseState {
 public:
  struct Facts {
    TensorId tensor;
    TierId tier;
    AccessMode mode = AccessMode::kRead;
    std::byte* address = nullptr;  ///< null when no contiguous address was asked for
    std::size_t bytes = 0;
    bool host_accessible = true;
    std::vector<std::span<std::byte>> spans;
    std::vector<std::uint32_t> nodes;  ///< node of each span
  };

  LeaseState(std::shared_ptr<engine::Mailbox> mailbox, engine::ReleaseNotice notice, Facts facts)
      : mailbox_(std::move(mailbox)), notice_(notice), facts_(std::move(facts)) {}
  ~LeaseState() { mailbox_->Post(notice_); }
  LeaseState(const LeaseState&) = delete;
  LeaseState& operator=(const LeaseState&) = delete;

  const Facts& facts() const { return facts_; }

 private:
  const std::shared_ptr<engine::Mailbox> mailbox_;
  const engine::ReleaseNotice notice_;
  const Facts facts_;
};

}  // namespace sluice::internal
