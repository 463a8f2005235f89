#include "io/request_queue.h"

#include <string>

#include "gtest/gtest.h"

namespace sluice::io {
namespace {

class IdleRequest final : public IoRequest {
 public:
  explicit IdleRequest(IoDirection direction) { command.direction = direction; }
  void Complete(std::int64_t) override {}
};

char LetterOf(const IoRequest& request) {
  return request.command.direction == IoDirection::kRead ? 'r' : 'w';
}

TEST(RequestQueueTest, EmptyQueuePopsNull) {
  RequestQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Pop(), nullptr);
}

TEST(RequestQueueTest, EachDirectionKeepsItsOrder) {
  RequestQueue queue;
  IdleRequest first(IoDirection::kWrite);
  IdleRequest second(IoDirection::kWrite);
  queue.Push(&first);
  queue.Push(&second);
  EXPECT_EQ(queue.Pop(), &first);
  EXPECT_EQ(queue.Pop(), &second);
  EXPECT_TRUE(queue.empty());
}

TEST(RequestQueueTest, ReadsOvertakeWrites) {
  RequestQueue queue;
  IdleRequest write(IoDirection::kWrite);
  IdleRequest read(IoDirection::kRead);
  queue.Push(&write);
  queue.Push(&read);
  EXPECT_EQ(queue.Pop(), &read);
  EXPECT_EQ(queue.Pop(), &write);
}

TEST(RequestQueueTest, AnEndlessStreamOfReadsDoesNotStarveWrites) {
  RequestQueue queue;
  std::vector<std::unique_ptr<IdleRequest>> requests;
  for (int i = 0; i < 3; ++i) {
    requests.push_back(std::make_unique<IdleRequest>(IoDirection::kWrite));
    queue.Push(requests.back().get());
  }
  std::string order;
  for (int i = 0; i < 18; ++i) {
    requests.push_back(std::make_unique<IdleRequest>(IoDirection::kRead));
    queue.Push(requests.back().get());
    order += LetterOf(*queue.Pop());
  }
  EXPECT_EQ(order, "rrrrwrrrrwrrrrwrrr");
}

TEST(RequestQueueTest, AnEndlessStreamOfWritesDoesNotDelayReads) {
  RequestQueue queue;
  IdleRequest writes[] = {IdleRequest(IoDirection::kWrite), IdleRequest(IoDirection::kWrite)};
  IdleRequest reads[] = {IdleRequest(IoDirection::kRead), IdleRequest(IoDirection::kRead)};
  queue.Push(&writes[0]);
  EXPECT_EQ(queue.Pop(), &writes[0]);
  for (int i = 0; i < 2; ++i) {
    queue.Push(&writes[i]);
    queue.Push(&reads[i]);
    EXPECT_EQ(queue.Pop(), &reads[i]);
  }
}

}  // namespace
}  // namespace sluice::io
