#include "runtime/engine/control/mailbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace sluice::engine {
namespace {

AcquireRequest Request(core::TicketNumber number) {
  AcquireRequest request;
  request.event.ticket = number;
  return request;
}

std::vector<core::TicketNumber> PopTickets(Mailbox& mailbox) {
  std::vector<Message> messages;
  mailbox.PopAll(&messages, Mailbox::Deadline::max());
  std::vector<core::TicketNumber> numbers;
  for (const Message& message : messages) {
    if (const auto* request = std::get_if<AcquireRequest>(&message)) {
      numbers.push_back(request->event.ticket);
    }
  }
  return numbers;
}

TEST(MailboxTest, TicketsBeyondTheBoundFollowInOrder) {
  Mailbox mailbox(2);
  for (core::TicketNumber i = 1; i <= 5; ++i) ASSERT_TRUE(mailbox.Offer(Request(i)));
  EXPECT_EQ(PopTickets(mailbox), (std::vector<core::TicketNumber>{1, 2}));
  ASSERT_TRUE(mailbox.Offer(Request(6)));  // may not overtake
  EXPECT_EQ(PopTickets(mailbox), (std::vector<core::TicketNumber>{3, 4}));
  EXPECT_EQ(PopTickets(mailbox), (std::vector<core::TicketNumber>{5, 6}));
}

TEST(MailboxTest, WithdrawnTicketsDoNotArrive) {
  Mailbox mailbox(1);
  for (core::TicketNumber i = 1; i <= 3; ++i) ASSERT_TRUE(mailbox.Offer(Request(i)));
  EXPECT_FALSE(mailbox.Withdraw(1)) << "the request is on its way";
  EXPECT_TRUE(mailbox.Withdraw(2));
  EXPECT_FALSE(mailbox.Withdraw(2));
  EXPECT_EQ(PopTickets(mailbox), (std::vector<core::TicketNumber>{1}));
  EXPECT_EQ(PopTickets(mailbox), (std::vector<core::TicketNumber>{3}));
}

TEST(MailboxTest, NoticesAreTakenWhenRequestsAreNot) {
  Mailbox mailbox(1);
  ASSERT_TRUE(mailbox.Offer(Request(1)));
  for (int i = 0; i < 100; ++i) mailbox.Post(Completion{});
  std::vector<Message> messages;
  mailbox.PopAll(&messages, Mailbox::Deadline::max());
  EXPECT_EQ(messages.size(), 101u);
}

TEST(MailboxTest, LeasesThatAreHandedOverComeBeforeTheRequestThoughItIsAside) {
  Mailbox mailbox(1);
  ASSERT_TRUE(mailbox.Offer(Request(1)));
  ASSERT_TRUE(mailbox.Offer(Request(2), std::vector<ReleaseNotice>{{7, 0}, {7, 1}}));
  std::vector<Message> messages;
  mailbox.PopAll(&messages, Mailbox::Deadline::max());
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(std::get<AcquireRequest>(messages[0]).event.ticket, 1u);
  EXPECT_EQ(std::get<ReleaseNotice>(messages[1]).access, 0u);
  EXPECT_EQ(std::get<ReleaseNotice>(messages[2]).access, 1u);
  EXPECT_EQ(PopTickets(mailbox), (std::vector<core::TicketNumber>{2}));
  mailbox.CloseRequests();
  EXPECT_FALSE(mailbox.Offer(Request(3), std::vector<ReleaseNotice>{{8, 0}}));
  messages.clear();
  mailbox.PopAll(&messages, Mailbox::Deadline::max());
  ASSERT_EQ(messages.size(), 1u) << "the leases come back, though nothing is asked for";
  EXPECT_EQ(std::get<ReleaseNotice>(messages[0]).ticket, 8u);
  mailbox.Close();
  EXPECT_FALSE(mailbox.Offer(Request(4), std::vector<ReleaseNotice>{{9, 0}}));
  messages.clear();
  mailbox.PopAll(&messages, Mailbox::Deadline::max());
  EXPECT_TRUE(messages.empty());
}

TEST(MailboxTest, OtherRequestsWaitForRoomAndKeepTheirPlace) {
  Mailbox mailbox(1);
  ASSERT_TRUE(mailbox.Offer(Request(1)));
  ASSERT_TRUE(mailbox.Offer(Request(2)));
  std::thread pusher([&] { EXPECT_TRUE(mailbox.Push(Request(3))); });
  std::vector<core::TicketNumber> seen;
  while (seen.size() < 3) {
    const auto more = PopTickets(mailbox);
    seen.insert(seen.end(), more.begin(), more.end());
  }
  pusher.join();
  EXPECT_EQ(seen, (std::vector<core::TicketNumber>{1, 2, 3}));
}

TEST(MailboxTest, ClosingRefusesRequestsAndReturnsThoseAside) {
  Mailbox mailbox(1);
  ASSERT_TRUE(mailbox.Offer(Request(1)));
  ASSERT_TRUE(mailbox.Offer(Request(2)));
  std::thread pusher([&] { EXPECT_FALSE(mailbox.Push(Request(3))); });
  const std::vector<AcquireRequest> left = mailbox.CloseRequests();
  pusher.join();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].event.ticket, 2u);
  EXPECT_FALSE(mailbox.Offer(Request(4)));
  mailbox.Post(StopNotice{});
  std::vector<Message> messages;
  mailbox.PopAll(&messages, Mailbox::Deadline::max());
  EXPECT_EQ(messages.size(), 2u);
}

TEST(MailboxTest, PopReturnsAtItsDeadline) {
  Mailbox mailbox(1);
  std::vector<Message> messages;
  mailbox.PopAll(&messages, std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
  EXPECT_TRUE(messages.empty());
}

}  // namespace
}  // namespace sluice::engine
