#include "tools/train/run/channel.h"

#include <unistd.h>

#include <thread>

#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

std::pair<Channel, Channel> Ends() {
  auto ends = MakeChannel();
  EXPECT_TRUE(ends.ok()) << ends.status();
  return {std::move(ends->first), Channel(ends->second)};
}

TEST(ChannelTest, MessagesArriveWholeAndInOrder) {
  auto [a, b] = Ends();
  // Larger than any socket buffer, so both sides must loop.
  const std::string large(8 << 20, 'x');
  std::thread sender([&channel = a, &large] {
    EXPECT_TRUE(channel.Send(MessageType::kText, large).ok());
    EXPECT_TRUE(channel.Send(MessageType::kEnd).ok());
  });
  const absl::StatusOr<Message> first = b.Receive();
  const absl::StatusOr<Message> second = b.Receive();
  sender.join();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->type, MessageType::kText);
  EXPECT_TRUE(first->payload == large);
  EXPECT_EQ(second->type, MessageType::kEnd);
  EXPECT_TRUE(second->payload.empty());
}

TEST(ChannelTest, AGoneOtherEndIsUnavailable) {
  auto [a, b] = Ends();
  b.Close();
  EXPECT_EQ(a.Receive().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(a.Send(MessageType::kEnd).code(), absl::StatusCode::kUnavailable);
}

TEST(ChannelTest, ExpectPassesTheOtherSidesErrorOn) {
  auto [a, b] = Ends();
  ASSERT_TRUE(a.SendError(absl::ResourceExhaustedError("no memory")).ok());
  EXPECT_EQ(b.Expect(MessageType::kSteps).status(), absl::ResourceExhaustedError("no memory"));
  ASSERT_TRUE(a.Send(MessageType::kError).ok());
  EXPECT_EQ(b.Expect(MessageType::kSteps).status().code(), absl::StatusCode::kInternal);
  ASSERT_TRUE(a.Send(MessageType::kTensor).ok());
  EXPECT_EQ(b.Expect(MessageType::kSteps).status().code(), absl::StatusCode::kInternal);
  ASSERT_TRUE(a.Send(MessageType::kSteps, "payload").ok());
  EXPECT_EQ(b.Expect(MessageType::kSteps).value(), "payload");
}

TEST(ChannelTest, DamageIsAnError) {
  auto ends = MakeChannel();
  ASSERT_TRUE(ends.ok());
  const std::string garbage(16, '\xff');
  ASSERT_EQ(write(ends->second, garbage.data(), garbage.size()), 16);
  EXPECT_EQ(ends->first.Receive().status().code(), absl::StatusCode::kInternal);
  close(ends->second);
}

}  // namespace
}  // namespace sluice::tools
