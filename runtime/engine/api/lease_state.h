#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/engine/control/mailbox.h"
#include "runtime/engine/views/write_window.h"
#include "sluice/tensor.h"
#include "sluice/tier.h"

namespace sluice::internal {

/// Pins of one lease; the destructor gives them back. Threads: destroyed on any thread.
class LeaseState {
 public:
  struct Facts {
    TensorId tensor;
    TierId tier;
    AccessMode mode = AccessMode::kRead;
    std::byte* address = nullptr;  ///< null when no contiguous address was asked for
    std::size_t bytes = 0;
    bool host_accessible = true;
    bool pinned = false;  ///< whether a GPU knows each span, and the lease has no address
    std::vector<std::span<std::byte>> spans;
    std::vector<std::uint32_t> nodes;  ///< node of each span
  };

  /// `window`: null unless the lease writes a view.
  LeaseState(std::shared_ptr<engine::Mailbox> mailbox,
             engine::ReleaseNotice notice,
             Facts facts,
             std::unique_ptr<engine::WriteWindow> window)
      : mailbox_(std::move(mailbox)),
        notice_(notice),
        facts_(std::move(facts)),
        window_(std::move(window)) {}
  ~LeaseState() {
    window_.reset();  // the window closes while the pages stay in their frames
    if (mailbox_ != nullptr) mailbox_->Post(notice_);
  }
  LeaseState(const LeaseState&) = delete;
  LeaseState& operator=(const LeaseState&) = delete;

  const Facts& facts() const { return facts_; }
  const engine::Mailbox* mailbox() const { return mailbox_.get(); }
  /// Returns the notice that gives the pins back, which the caller sends in place of the
  /// destructor.
  engine::ReleaseNotice TakeNotice() {
    window_.reset();
    mailbox_ = nullptr;
    return notice_;
  }

 private:
  std::shared_ptr<engine::Mailbox> mailbox_;
  const engine::ReleaseNotice notice_;
  const Facts facts_;
  std::unique_ptr<engine::WriteWindow> window_;
};

}  // namespace sluice::internal
