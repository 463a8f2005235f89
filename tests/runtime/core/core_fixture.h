#pragma once

#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/core/driver/virtual_driver.h"

namespace sluice::core {

inline PageRequest Read(PageIndex page, TierIndex tier = 0) {
  return {.page = page, .tier = tier, .mode = PageMode::kRead};
}
inline PageRequest Write(PageIndex page, TierIndex tier = 0) {
  return {.page = page, .tier = tier, .mode = PageMode::kWrite};
}
inline PageRequest Overwrite(PageIndex page, TierIndex tier = 0) {
  return {.page = page, .tier = tier, .mode = PageMode::kOverwrite};
}
inline PageRequest Mapped(PageRequest request) {
  request.map = true;
  return request;
}

/// A driver with the steps that hand-written cases are made of. Every case ends with a check that
/// no invariant broke on the way.
class CoreFixture : public ::testing::Test {
 protected:
  void TearDown() override {
    if (driver_ == nullptr) return;
    EXPECT_TRUE(driver_->verdict().ok()) << driver_->Report();
  }

  void Start(const DriverOptions& options) { driver_ = std::make_unique<VirtualDriver>(options); }
  VirtualDriver& driver() { return *driver_; }

  /// Pages [0, pages) or from `first_page` on, one segment.
  void Create(std::uint32_t pages, TierIndex lowest, PageIndex first_page = 0) {
    Create(
        {.segment = next_segment_++, .first_page = first_page, .pages = pages, .lowest = lowest});
  }
  void Create(const CreateSegment& create) {
    EXPECT_EQ(Select<SegmentCreated>(driver_->Send(create)).size(), 1u);
  }

  /// Sends an Acquire; its actions are in actions().
  TicketNumber Acquire(std::vector<PageRequest> requests,
                       OpNumber op = 0,
                       LaneIndex lane = 0,
                       NameIndex name = 0) {
    return Acquire({.op = op, .lane = lane, .name = name, .requests = std::move(requests)});
  }
  /// An op within those of its lane that hold pages.
  TicketNumber AcquireNested(std::vector<PageRequest> requests, OpNumber op, LaneIndex lane) {
    return Acquire({.op = op, .lane = lane, .requests = std::move(requests), .nested = true});
  }
  TicketNumber Acquire(core::Acquire acquire) {
    acquire.ticket = next_ticket_++;
    if (acquire.op == 0) acquire.op = 1000 + acquire.ticket;
    const TicketNumber ticket = acquire.ticket;
    actions_ = driver_->Send(std::move(acquire));
    return ticket;
  }
  /// Ends all of the ticket's leases.
  void Release(TicketNumber ticket) {
    std::vector<PageIndex> pages;
    for (const PageRequest& request : driver_->ticket(ticket).acquire.requests) {
      for (int i = 0; i < request.leases; ++i) pages.push_back(request.page);
    }
    actions_ = driver_->Send(core::Release{ticket, pages});
  }
  /// Acquires, waits and releases; returns everything that was done for it until nothing moved.
  std::vector<Action> RunOp(std::vector<PageRequest> requests,
                            LaneIndex lane = 0,
                            NameIndex name = 0) {
    const TicketNumber ticket = Acquire(std::move(requests), 0, lane, name);
    std::vector<Action> all = actions_;
    Append(driver_->Drain(), &all);
    EXPECT_TRUE(Granted(ticket)) << driver_->Report();
    if (!Granted(ticket)) return all;
    Release(ticket);
    Append(actions_, &all);
    Append(driver_->Drain(), &all);
    return all;
  }
  static void Append(const std::vector<Action>& more, std::vector<Action>* all) {
    all->insert(all->end(), more.begin(), more.end());
  }

  bool Granted(TicketNumber ticket) { return driver_->ticket(ticket).granted; }
  bool Open(TicketNumber ticket) { return driver_->ticket(ticket).open(); }
  /// The failure of `ticket`, which must have failed.
  FailTicket FailureOf(TicketNumber ticket) {
    for (const Action& action : driver_->answers()) {
      const FailTicket* fail = std::get_if<FailTicket>(&action);
      if (fail != nullptr && fail->ticket == ticket) return *fail;
    }
    ADD_FAILURE() << "ticket " << ticket << " did not fail\n" << driver_->Report();
    return {};
  }
  /// Whether the page's content is in `tier`.
  bool Resident(PageIndex page, TierIndex tier) {
    for (FrameIndex i = 0; i < driver_->frames().limit(tier); ++i) {
      const SimFrame& frame = driver_->frames().frame(tier, i);
      if (frame.owner == page && !frame.filling) return true;
    }
    return false;
  }
  /// Copies among `actions` in the direction, of any page.
  static std::size_t CopiesIn(const std::vector<Action>& actions) {
    std::size_t count = 0;
    for (const StartCopy& copy : Select<StartCopy>(actions)) count += copy.target < copy.source;
    return count;
  }
  static std::size_t CopiesOut(const std::vector<Action>& actions) {
    return Select<StartCopy>(actions).size() - CopiesIn(actions);
  }
  const std::vector<Action>& actions() const { return actions_; }

 private:
  std::unique_ptr<VirtualDriver> driver_;
  std::vector<Action> actions_;
  TicketNumber next_ticket_ = 1;
  SegmentIndex next_segment_ = 1;
};

}  // namespace sluice::core
