#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "numa/arena.h"
#include "runtime/device/device.h"
#include "tests/support/memory_probe.h"

/// What every Device does. A new one gets the whole suite by one INSTANTIATE_TEST_SUITE_P with a
/// DeviceFactory. The suite reads frames and mappings from the host.

namespace sluice::device {

struct DeviceFactory {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<Device>>(std::uint64_t page_bytes,
                                                        std::uint32_t frames)>
      make;
};
inline void PrintTo(const DeviceFactory& factory, std::ostream* out) { *out << factory.name; }

/// Lets a test wait for a number of completions and keeps the first error.
class Completions {
 public:
  explicit Completions(int count) : latch_(count) {}
  DoneFn Done() {
    return [this](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      latch_.count_down();
    };
  }
  void Wait() { latch_.wait(); }

 private:
  std::latch latch_;
};

inline void Fill(std::span<std::byte> bytes, std::uint32_t value) {
  std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(value));
}

inline bool AllAre(std::span<const std::byte> bytes, std::uint32_t value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte byte) {
    return byte == static_cast<std::byte>(value);
  });
}

class DeviceContractTest : public ::testing::TestWithParam<DeviceFactory> {
 protected:
  static constexpr std::uint64_t kPageBytes = 64 << 10;
  static constexpr std::uint32_t kFrames = 48;
  static constexpr std::uint32_t kHostPages = 16;

  void SetUp() override {
    auto device = GetParam().make(kPageBytes, kFrames);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    auto host =
        numa::Arena::Create({.name = "test", .page_bytes = kPageBytes, .frames = kHostPages});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }

  std::unique_ptr<DeviceRange> Reserve(std::uint64_t pages) {
    auto range = device_->ReserveRange(pages * kPageBytes);
    EXPECT_TRUE(range.ok()) << range.status();
    return *std::move(range);
  }
  void CopyInAndWait(std::uint32_t host_page, std::uint32_t frame) {
    Completions done(1);
    device_->CopyIn(host_->Frame(host_page), frame, done.Done());
    done.Wait();
  }
  void CopyOutAndWait(std::uint32_t frame, std::uint32_t host_page) {
    Completions done(1);
    device_->CopyOut(frame, host_->Frame(host_page), done.Done());
    done.Wait();
  }

  // The host pages outlive the device, which may still copy when it is destroyed.
  std::unique_ptr<numa::Arena> host_;
  std::unique_ptr<Device> device_;
};

TEST_P(DeviceContractTest, HasTheFramesAskedFor) {
  EXPECT_EQ(device_->frame_count(), kFrames);
  EXPECT_EQ(device_->page_bytes(), kPageBytes);
  EXPECT_FALSE(device_->name().empty());
  EXPECT_EQ(device_->allocated_bytes(), kFrames * kPageBytes);
  EXPECT_EQ(device_->Frame(kFrames - 1).size(), kPageBytes);
}

TEST_P(DeviceContractTest, BytesGoInAndComeBack) {
  for (std::uint32_t page = 0; page < 8; ++page) Fill(host_->Frame(page), page + 1);
  for (std::uint32_t page = 0; page < 8; ++page) CopyInAndWait(page, kFrames - 1 - page);
  for (std::uint32_t page = 0; page < 8; ++page) CopyOutAndWait(kFrames - 1 - page, 8 + page);
  for (std::uint32_t page = 0; page < 8; ++page) {
    EXPECT_TRUE(AllAre(device_->Frame(kFrames - 1 - page), page + 1)) << page;
    EXPECT_TRUE(AllAre(host_->Frame(8 + page), page + 1)) << page;
  }
}

TEST_P(DeviceContractTest, AFrameIsNoAliasOfTheHostPageItCameFrom) {
  Fill(host_->Frame(0), 1);
  CopyInAndWait(0, 5);
  Fill(host_->Frame(0), 2);
  EXPECT_TRUE(AllAre(device_->Frame(5), 1)) << "the frame kept what was copied";
  Fill(device_->Frame(5), 3);
  EXPECT_TRUE(AllAre(host_->Frame(0), 2)) << "the host page kept what was written";
  CopyOutAndWait(5, 1);
  Fill(device_->Frame(5), 4);
  EXPECT_TRUE(AllAre(host_->Frame(1), 3));
}

TEST_P(DeviceContractTest, CopiesOfOneDirectionCompleteInOrder) {
  constexpr int kCopies = 40;
  std::vector<int> in_order;  // written by the thread of one direction each
  std::vector<int> out_order;
  std::latch done(2 * kCopies);
  for (int i = 0; i < kCopies; ++i) {
    const auto frame = static_cast<std::uint32_t>(i % 8);
    device_->CopyIn(host_->Frame(frame), frame, [&, i](const absl::Status& status) {
      if (status.ok()) in_order.push_back(i);
      done.count_down();
    });
    device_->CopyOut(8 + frame, host_->Frame(8 + frame), [&, i](const absl::Status& status) {
      if (status.ok()) out_order.push_back(i);
      done.count_down();
    });
  }
  done.wait();
  std::vector<int> expected(kCopies);
  for (int i = 0; i < kCopies; ++i) expected[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(in_order, expected);
  EXPECT_EQ(out_order, expected);
}

TEST_P(DeviceContractTest, TheBytesAreThereWhenACopyIsDone) {
  Fill(host_->Frame(3), 77);
  std::latch done(1);
  bool there = false;
  device_->CopyIn(host_->Frame(3), 9, [&](const absl::Status&) {
    there = AllAre(device_->Frame(9), 77);
    done.count_down();
  });
  done.wait();
  EXPECT_TRUE(there);
}

TEST_P(DeviceContractTest, ACompletionMayStartTheNextCopy) {
  Fill(host_->Frame(0), 42);
  Completions done(1);
  device_->CopyIn(host_->Frame(0), 1, [&](const absl::Status&) {
    device_->CopyOut(1, host_->Frame(1), [&](const absl::Status&) {
      device_->CopyIn(host_->Frame(1), 2, done.Done());
    });
  });
  done.Wait();
  EXPECT_TRUE(AllAre(device_->Frame(2), 42));
}

TEST_P(DeviceContractTest, TakesCopiesFromSeveralThreads) {
  constexpr std::uint32_t kPages = kHostPages;
  for (std::uint32_t page = 0; page < kPages; ++page) Fill(host_->Frame(page), 100 + page);
  Completions done(static_cast<int>(kPages));
  std::vector<std::thread> threads;
  for (std::uint32_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (std::uint32_t page = first; page < kPages; page += 4) {
        device_->CopyIn(host_->Frame(page), page, done.Done());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done.Wait();
  for (std::uint32_t page = 0; page < kPages; ++page) {
    EXPECT_TRUE(AllAre(device_->Frame(page), 100 + page)) << page;
  }
}

TEST_P(DeviceContractTest, DestructionDrainsTheCopies) {
  Fill(host_->Frame(0), 5);
  int completed = 0;
  for (std::uint32_t i = 0; i < 20; ++i) {
    device_->CopyIn(host_->Frame(0), i, [&](const absl::Status& status) {
      if (status.ok()) ++completed;
    });
  }
  device_.reset();
  EXPECT_EQ(completed, 20);
}

TEST_P(DeviceContractTest, RangesAreInaccessibleUntilMapped) {
  const auto range = Reserve(4);
  EXPECT_GE(range->bytes(), 4 * kPageBytes);
  for (std::uint64_t page = 0; page < 4; ++page) {
    EXPECT_FALSE(testing::IsReadable(range->base() + page * kPageBytes)) << page;
  }
}

TEST_P(DeviceContractTest, AMappedPageHasTheBytesOfItsFrame) {
  const auto range = Reserve(4);
  Fill(host_->Frame(0), 11);
  CopyInAndWait(0, 7);
  ASSERT_TRUE(device_->Map(*range, 2, 7).ok());
  const std::span<std::byte> mapped(range->base() + 2 * kPageBytes, kPageBytes);
  EXPECT_TRUE(AllAre(mapped, 11));
  Fill(mapped, 12);
  CopyOutAndWait(7, 1);
  EXPECT_TRUE(AllAre(host_->Frame(1), 12));
  EXPECT_FALSE(testing::IsReadable(range->base() + 1 * kPageBytes));
  EXPECT_FALSE(testing::IsReadable(range->base() + 3 * kPageBytes));
}

TEST_P(DeviceContractTest, MappingAgainReplacesTheFrame) {
  const auto range = Reserve(1);
  Fill(device_->Frame(1), 21);
  Fill(device_->Frame(2), 22);
  ASSERT_TRUE(device_->Map(*range, 0, 1).ok());
  ASSERT_TRUE(device_->Map(*range, 0, 2).ok());
  EXPECT_TRUE(AllAre({range->base(), kPageBytes}, 22));
  EXPECT_TRUE(AllAre(device_->Frame(1), 21));
}

TEST_P(DeviceContractTest, AnUnmappedPageIsInaccessibleAndItsFrameKeepsItsBytes) {
  const auto range = Reserve(3);
  for (std::uint32_t page = 0; page < 3; ++page) {
    Fill(device_->Frame(page), 30 + page);
    ASSERT_TRUE(device_->Map(*range, page, page).ok());
  }
  ASSERT_TRUE(device_->Unmap(*range, 1).ok());
  EXPECT_TRUE(AllAre({range->base(), kPageBytes}, 30));
  EXPECT_FALSE(testing::IsReadable(range->base() + kPageBytes));
  EXPECT_TRUE(AllAre({range->base() + 2 * kPageBytes, kPageBytes}, 32));
  EXPECT_TRUE(AllAre(device_->Frame(1), 31));
}

TEST_P(DeviceContractTest, OneFrameUnderTwoAddressesIsOneMemory) {
  const auto first = Reserve(1);
  const auto second = Reserve(2);
  ASSERT_TRUE(device_->Map(*first, 0, 3).ok());
  ASSERT_TRUE(device_->Map(*second, 1, 3).ok());
  Fill({first->base(), kPageBytes}, 41);
  EXPECT_TRUE(AllAre({second->base() + kPageBytes, kPageBytes}, 41));
}

TEST_P(DeviceContractTest, ResizeGivesMemoryBackAndTakesItAgain) {
  Fill(device_->Frame(0), 51);
  const auto fewer = device_->Resize(1);
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_GE(*fewer, 1u);
  EXPECT_LT(*fewer, kFrames) << "at least a chunk went back";
  EXPECT_EQ(device_->frame_count(), *fewer);
  EXPECT_EQ(device_->allocated_bytes(), *fewer * kPageBytes);
  const auto all = device_->Resize(kFrames);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(*all, kFrames);
  EXPECT_TRUE(AllAre(device_->Frame(0), 51));
  Fill(host_->Frame(0), 52);
  CopyInAndWait(0, kFrames - 1);
  EXPECT_TRUE(AllAre(device_->Frame(kFrames - 1), 52));
  EXPECT_FALSE(device_->Resize(kFrames + 1).ok()) << "no more than at creation";
}

TEST_P(DeviceContractTest, AStreamRunsItsWorkInOrder) {
  const auto stream = device_->CreateStream().value();
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    stream->Enqueue([&order, i] { order.push_back(i); });
  }
  stream->Synchronize();
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_P(DeviceContractTest, ANotificationComesAfterTheWorkBefore) {
  const auto stream = device_->CreateStream().value();
  std::latch go(1);
  std::latch notified(1);
  bool ran = false;
  bool ran_before = false;
  stream->Enqueue([&] {
    go.wait();
    ran = true;
  });
  stream->Notify([&](const absl::Status& status) {
    ran_before = ran && status.ok();
    notified.count_down();
  });
  EXPECT_FALSE(notified.try_wait());
  go.count_down();
  notified.wait();
  EXPECT_TRUE(ran_before);
}

TEST_P(DeviceContractTest, StreamsAreIndependentOfEachOtherAndOfCopies) {
  const auto blocked = device_->CreateStream().value();
  const auto free = device_->CreateStream().value();
  std::latch go(1);
  blocked->Enqueue([&] { go.wait(); });
  int ran = 0;
  free->Enqueue([&] { ++ran; });
  free->Synchronize();
  EXPECT_EQ(ran, 1);
  CopyInAndWait(0, 0);
  go.count_down();
  blocked->Synchronize();
}

TEST_P(DeviceContractTest, WorkOfAStreamMayEnqueueMore) {
  const auto stream = device_->CreateStream().value();
  std::latch done(1);
  stream->Enqueue([&] { stream->Enqueue([&] { done.count_down(); }); });
  done.wait();
  EXPECT_TRUE(done.try_wait());
}

TEST_P(DeviceContractTest, DestroyingAStreamDrainsIt) {
  int ran = 0;
  auto stream = device_->CreateStream().value();
  for (int i = 0; i < 50; ++i) stream->Enqueue([&] { ++ran; });
  stream.reset();
  EXPECT_EQ(ran, 50);
}

}  // namespace sluice::device
