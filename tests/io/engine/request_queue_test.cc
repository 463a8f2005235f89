#include "io/engine/request_queue.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::io {
namespace {

class IdleRequest final : public IoRequest {
 public:
  explicit IdleRequest(IoDirection direction) { command.direction = direction; }
  void Complete(std::int64_t) override {}
};

constexpr RequestQueue::Clock::time_point kStart{std::chrono::seconds(1)};
constexpr IoFile kFile{.fd = -1, .bytes = 1 << 20};

char LetterOf(const IoRequest& request) {
  return request.command.direction == IoDirection::kRead ? 'r' : 'w';
}

TEST(RequestQueueTest, EmptyQueuePopsNull) {
  RequestQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Pop(kStart), nullptr);
}

TEST(RequestQueueTest, EachDirectionKeepsItsOrder) {
  RequestQueue queue;
  IdleRequest first(IoDirection::kWrite);
  IdleRequest second(IoDirection::kWrite);
  queue.Push(&first, kStart);
  queue.Push(&second, kStart);
  EXPECT_EQ(queue.Pop(kStart), &first);
  EXPECT_EQ(queue.Pop(kStart), &second);
  EXPECT_TRUE(queue.empty());
}

TEST(RequestQueueTest, ReadsOvertakeWrites) {
  RequestQueue queue;
  IdleRequest write(IoDirection::kWrite);
  IdleRequest read(IoDirection::kRead);
  queue.Push(&write, kStart);
  queue.Push(&read, kStart);
  EXPECT_EQ(queue.Pop(kStart), &read);
  EXPECT_EQ(queue.Pop(kStart), &write);
}

TEST(RequestQueueTest, AnEndlessStreamOfReadsDoesNotStarveWrites) {
  RequestQueue queue;
  std::vector<std::unique_ptr<IdleRequest>> requests;
  for (int i = 0; i < 3; ++i) {
    requests.push_back(std::make_unique<IdleRequest>(IoDirection::kWrite));
    queue.Push(requests.back().get(), kStart);
  }
  std::string order;
  for (int i = 0; i < 18; ++i) {
    requests.push_back(std::make_unique<IdleRequest>(IoDirection::kRead));
    queue.Push(requests.back().get(), kStart);
    order += LetterOf(*queue.Pop(kStart));
  }
  EXPECT_EQ(order, "rrrrwrrrrwrrrrwrrr");
}

TEST(RequestQueueTest, AnEndlessStreamOfWritesDoesNotDelayReads) {
  RequestQueue queue;
  IdleRequest writes[] = {IdleRequest(IoDirection::kWrite), IdleRequest(IoDirection::kWrite)};
  IdleRequest reads[] = {IdleRequest(IoDirection::kRead), IdleRequest(IoDirection::kRead)};
  queue.Push(&writes[0], kStart);
  EXPECT_EQ(queue.Pop(kStart), &writes[0]);
  for (int i = 0; i < 2; ++i) {
    queue.Push(&writes[i], kStart);
    queue.Push(&reads[i], kStart);
    EXPECT_EQ(queue.Pop(kStart), &reads[i]);
  }
}

TEST(RequestQueueTest, AWriteThatWaitedLongOvertakesReads) {
  RequestQueue queue;
  IdleRequest write(IoDirection::kWrite);
  IdleRequest reads[] = {IdleRequest(IoDirection::kRead), IdleRequest(IoDirection::kRead)};
  queue.Push(&write, kStart);
  for (IdleRequest& read : reads) queue.Push(&read, kStart);
  const auto limit = kStart + RequestQueue::kWriteAgeMax;
  EXPECT_EQ(queue.Pop(limit - std::chrono::microseconds(1)), &reads[0]);
  EXPECT_EQ(queue.Pop(limit), &write);
  EXPECT_EQ(queue.Pop(limit), &reads[1]);
}

TEST(RequestQueueTest, AWriteThatIsTriedAgainKeepsItsAge) {
  static_assert(RequestQueue::kWriteAgeMax == std::chrono::milliseconds(20));
  using std::chrono::milliseconds;
  RequestQueue queue;
  IdleRequest old(IoDirection::kWrite);
  IdleRequest as_old(IoDirection::kWrite);
  IdleRequest young(IoDirection::kWrite);
  IdleRequest read(IoDirection::kRead);
  queue.Push(&old, kStart);
  queue.Push(&as_old, kStart);
  EXPECT_EQ(queue.Pop(kStart), &old);
  EXPECT_EQ(queue.Pop(kStart), &as_old);
  queue.Push(&young, kStart + milliseconds(5));
  queue.Push(&old, kStart + milliseconds(15));
  queue.Push(&as_old, kStart + milliseconds(15));
  queue.Push(&read, kStart + milliseconds(15));
  EXPECT_EQ(queue.Pop(kStart + milliseconds(20)), &old);
  EXPECT_EQ(queue.Pop(kStart + milliseconds(20)), &as_old);
  EXPECT_EQ(queue.Pop(kStart + milliseconds(20)), &read);
  EXPECT_EQ(queue.Pop(kStart + milliseconds(20)), &young);
  EXPECT_TRUE(queue.empty());
}

TEST(RequestQueueTest, OldWritesDoNotStarveReads) {
  RequestQueue queue;
  std::vector<std::unique_ptr<IdleRequest>> requests;
  for (int i = 0; i < 20; ++i) {
    const IoDirection direction = i % 2 == 0 ? IoDirection::kWrite : IoDirection::kRead;
    requests.push_back(std::make_unique<IdleRequest>(direction));
    queue.Push(requests.back().get(), kStart);
  }
  std::string order;
  const auto late = kStart + std::chrono::seconds(1);
  while (!queue.empty()) order += LetterOf(*queue.Pop(late));
  EXPECT_EQ(order, "wwwwrwwwwrwwrrrrrrrr");
}

TEST(RequestQueueTest, AHastenedWriteGoesFirst) {
  RequestQueue queue;
  IdleRequest read(IoDirection::kRead);
  IdleRequest writes[] = {IdleRequest(IoDirection::kWrite), IdleRequest(IoDirection::kWrite)};
  for (std::uint64_t i = 0; i < 2; ++i) {
    writes[i].command.file = &kFile;
    writes[i].command.offset = 4096 * i;
    queue.Push(&writes[i], kStart);
  }
  queue.Push(&read, kStart);
  constexpr IoFile kOther{.fd = -1, .bytes = 1 << 20};
  queue.Hasten(kOther, 4096, 4096);
  queue.Hasten(kFile, 4096, 4096);
  EXPECT_EQ(queue.Pop(kStart), &writes[1]);
  EXPECT_EQ(queue.Pop(kStart), &read);
  EXPECT_EQ(queue.Pop(kStart), &writes[0]);
  EXPECT_TRUE(queue.empty());
}

TEST(RequestQueueTest, AHastenedWriteThatIsTriedAgainGoesFirstAgain) {
  RequestQueue queue;
  IdleRequest hastened(IoDirection::kWrite);
  IdleRequest read(IoDirection::kRead);
  hastened.command = {
      .direction = IoDirection::kWrite, .file = &kFile, .offset = 4096, .bytes = 4096};
  queue.Push(&hastened, kStart);
  queue.Hasten(kFile, 4096, 4096);
  ASSERT_EQ(queue.Pop(kStart), &hastened);
  queue.Push(&read, kStart);
  queue.Push(&hastened, kStart);
  EXPECT_EQ(queue.Pop(kStart), &hastened);
  EXPECT_EQ(queue.Pop(kStart), &read);
}

TEST(RequestQueueTest, AWriteThatIsHastenedWhileItDoesNotWaitGoesFirstWhenItDoes) {
  RequestQueue queue;
  std::atomic<bool> wanted = false;
  IdleRequest write(IoDirection::kWrite);
  IdleRequest read(IoDirection::kRead);
  write.command.hastened = &wanted;
  queue.Push(&write, kStart);
  ASSERT_EQ(queue.Pop(kStart), &write);
  wanted = true;
  queue.Push(&read, kStart);
  queue.Push(&write, kStart);
  EXPECT_EQ(queue.Pop(kStart), &write);
  EXPECT_EQ(queue.Pop(kStart), &read);
}

TEST(RequestQueueTest, AHastenedWriteIsFoundByItsCommandToo) {
  RequestQueue queue;
  std::atomic<bool> wanted = false;
  IdleRequest drop(IoDirection::kDropCache);  // a command on a range that begins before the page
  IdleRequest read(IoDirection::kRead);
  drop.command = {.direction = IoDirection::kDropCache,
                  .file = &kFile,
                  .offset = 0,
                  .bytes = 8192,
                  .hastened = &wanted};
  queue.Push(&drop, kStart);
  queue.Push(&read, kStart);
  wanted = true;
  queue.Hasten(kFile, 4096, 4096);
  EXPECT_EQ(queue.Pop(kStart), &drop);
  EXPECT_EQ(queue.Pop(kStart), &read);
}

TEST(RequestQueueTest, HastenedWritesDoNotStarveReads) {
  RequestQueue queue;
  std::vector<std::unique_ptr<IdleRequest>> requests;
  for (int i = 0; i < 7; ++i) {
    requests.push_back(
        std::make_unique<IdleRequest>(i == 0 ? IoDirection::kRead : IoDirection::kWrite));
    requests.back()->command.file = &kFile;
    queue.Push(requests.back().get(), kStart);
  }
  queue.Hasten(kFile, 0, kFile.bytes);
  std::string order;
  while (!queue.empty()) order += LetterOf(*queue.Pop(kStart));
  EXPECT_EQ(order, "wwwwrww");
}

TEST(RequestQueueTest, HastenedWritesDoNotStarveOldOnes) {
  RequestQueue queue;
  std::vector<std::unique_ptr<IdleRequest>> requests;
  for (std::uint64_t i = 0; i < 12; ++i) {
    requests.push_back(std::make_unique<IdleRequest>(IoDirection::kWrite));
    requests.back()->command.file = &kFile;
    requests.back()->command.offset = 4096 * i;
    queue.Push(requests.back().get(), kStart);
  }
  queue.Hasten(kFile, 0, 4096 * 10);
  std::string order;
  const auto late = kStart + RequestQueue::kWriteAgeMax;
  while (!queue.empty()) order += queue.Pop(late)->command.offset < 4096 * 10 ? 'h' : 'w';
  EXPECT_EQ(order, "hhhhwhhhhwhh");
}

/// A read of a buffered file is done when its page has left the cache.
TEST(RequestQueueTest, DropsOfTheCacheGoWithTheReads) {
  RequestQueue queue;
  IdleRequest write(IoDirection::kWrite);
  IdleRequest drop(IoDirection::kDropCache);
  queue.Push(&write, kStart);
  queue.Push(&drop, kStart);
  EXPECT_EQ(queue.Pop(kStart), &drop);
  EXPECT_EQ(queue.Pop(kStart), &write);
}

TEST(RequestQueueTest, OnlyARequestThatContinuesIsAdjacent) {
  RequestQueue queue;
  IdleRequest reads[4] = {IdleRequest(IoDirection::kRead),
                          IdleRequest(IoDirection::kRead),
                          IdleRequest(IoDirection::kRead),
                          IdleRequest(IoDirection::kRead)};
  constexpr IoFile kOther{.fd = -1, .bytes = 1 << 20};
  const std::uint64_t offsets[] = {0, 4096, 12288, 16384};
  for (int i = 0; i < 4; ++i) {
    reads[i].command.file = i == 3 ? &kOther : &kFile;
    reads[i].command.offset = offsets[i];
    reads[i].command.bytes = 4096;
    queue.Push(&reads[i], kStart);
  }
  IoRequest* first = queue.Pop(kStart);
  EXPECT_EQ(queue.PopAdjacent(*first, kStart), &reads[1]);
  EXPECT_EQ(queue.PopAdjacent(reads[1], kStart), nullptr) << "a gap";
  EXPECT_EQ(queue.Pop(kStart), &reads[2]);
  EXPECT_EQ(queue.PopAdjacent(reads[2], kStart), nullptr) << "another file";
}

}  // namespace
}  // namespace sluice::io
