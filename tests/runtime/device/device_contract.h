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

/// Contract of a Device. A new device gets the whole suite by one INSTANTIATE_TEST_SUITE_P with a
/// DeviceFactory. The suite touches device memory only through CopyIn, CopyOut and the functions of
/// the factory. So the host may be unable to read the memory of a device.

namespace sluice::device {

struct DeviceFactory {
  std::string name;
  std::uint64_t page_bytes = 0;
  std::function<absl::StatusOr<std::unique_ptr<Device>>(std::uint32_t frames)> make;
  /// Function that tells whether the device can read the address.
  std::function<bool(const std::byte* address)> accessible;
  /// Functions that copy bytes from and to an address of the device.
  std::function<void(const std::byte* from, std::span<std::byte> host)> read;
  std::function<void(std::byte* to, std::span<const std::byte> host)> write;
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
  /// A callback that accepts errors, too.
  DoneFn AnyDone() {
    return [this](const absl::Status&) { latch_.count_down(); };
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
  static constexpr std::uint32_t kFrames = 48;
  static constexpr std::uint32_t kHostPages = 16;

  void SetUp() override {
    auto device = GetParam().make(kFrames);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    auto host =
        numa::Arena::Create({.name = "test", .page_bytes = page_bytes(), .frames = kHostPages});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
    const absl::Status registered = device_->RegisterHost(HostPages());
    ASSERT_TRUE(registered.ok()) << registered;
  }

  std::span<std::byte> HostPages() const {
    return {host_->Frame(0).data(), kHostPages * page_bytes()};
  }
  static std::uint64_t page_bytes() { return GetParam().page_bytes; }
  static std::byte* PageOf(const DeviceRange& range, std::uint64_t page) {
    return range.base() + page * page_bytes();
  }
  std::unique_ptr<DeviceRange> Reserve(std::uint64_t pages) {
    auto range = device_->ReserveRange(pages * page_bytes());
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

  /// Fills a frame by a copy from the last host page.
  void FillFrame(std::uint32_t frame, std::uint32_t value) {
    Fill(host_->Frame(kHostPages - 1), value);
    CopyInAndWait(kHostPages - 1, frame);
  }
  /// Whether every byte of a frame has the value, found by a copy into the last host page.
  bool FrameIs(std::uint32_t frame, std::uint32_t value) {
    CopyOutAndWait(frame, kHostPages - 1);
    return AllAre(host_->Frame(kHostPages - 1), value);
  }
  static void FillPage(std::byte* address, std::uint32_t value) {
    GetParam().write(address, std::vector<std::byte>(page_bytes(), static_cast<std::byte>(value)));
  }
  static bool PageIs(const std::byte* address, std::uint32_t value) {
    std::vector<std::byte> bytes(page_bytes());
    GetParam().read(address, bytes);
    return AllAre(bytes, value);
  }

  // The host pages outlive the device, which may still copy when it is destroyed.
  std::unique_ptr<numa::Arena> host_;
  std::unique_ptr<Device> device_;
};

TEST_P(DeviceContractTest, HasTheFramesAskedFor) {
  EXPECT_EQ(device_->frame_count(), kFrames);
  EXPECT_EQ(device_->page_bytes(), page_bytes());
  EXPECT_FALSE(device_->name().empty());
  EXPECT_EQ(device_->allocated_bytes(), kFrames * page_bytes());
  EXPECT_EQ(device_->Frame(kFrames - 1).size(), page_bytes());
}

TEST_P(DeviceContractTest, AFillGivesEveryByteTheValue) {
  FillFrame(4, 8);
  Completions done(2);
  device_->Fill(4, 0xa5, done.Done());
  device_->Fill(5, 0, done.Done());
  done.Wait();
  EXPECT_TRUE(FrameIs(4, 0xa5));
  EXPECT_TRUE(FrameIs(5, 0));
}

TEST_P(DeviceContractTest, HostMemoryMayBeRegisteredAgain) {
  device_->UnregisterHost(HostPages());
  ASSERT_TRUE(device_->RegisterHost(HostPages()).ok());
  FillFrame(2, 61);
  EXPECT_TRUE(FrameIs(2, 61));
}

TEST_P(DeviceContractTest, TellsWhetherTheHostReachesItsMemory) {
  EXPECT_EQ(device_->host_accessible(), testing::IsReadable(device_->Frame(0).data()));
}

TEST_P(DeviceContractTest, BytesGoInAndComeBack) {
  for (std::uint32_t page = 0; page < 7; ++page) Fill(host_->Frame(page), page + 1);
  for (std::uint32_t page = 0; page < 7; ++page) CopyInAndWait(page, kFrames - 1 - page);
  for (std::uint32_t page = 0; page < 7; ++page) CopyOutAndWait(kFrames - 1 - page, 8 + page);
  for (std::uint32_t page = 0; page < 7; ++page) {
    EXPECT_TRUE(AllAre(host_->Frame(8 + page), page + 1)) << page;
  }
}

TEST_P(DeviceContractTest, AFrameIsNoAliasOfTheHostPageItCameFrom) {
  Fill(host_->Frame(0), 1);
  CopyInAndWait(0, 5);
  Fill(host_->Frame(0), 2);
  EXPECT_TRUE(FrameIs(5, 1)) << "the frame kept what was copied";
  FillFrame(5, 3);
  EXPECT_TRUE(AllAre(host_->Frame(0), 2)) << "the host page kept what was written";
  CopyOutAndWait(5, 1);
  FillFrame(5, 4);
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
  const auto range = Reserve(1);
  ASSERT_TRUE(device_->Map(*range, 0, 9).ok());
  Completions done(1);
  device_->CopyIn(host_->Frame(3), 9, done.Done());
  done.Wait();
  EXPECT_TRUE(PageIs(range->base(), 77));
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
  EXPECT_TRUE(FrameIs(2, 42));
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
    EXPECT_TRUE(FrameIs(page, 100 + page)) << page;
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
  EXPECT_GE(range->bytes(), 4 * page_bytes());
  for (std::uint64_t page = 0; page < 4; ++page) {
    EXPECT_FALSE(GetParam().accessible(PageOf(*range, page))) << page;
  }
}

TEST_P(DeviceContractTest, AMappedPageHasTheBytesOfItsFrame) {
  const auto range = Reserve(4);
  Fill(host_->Frame(0), 11);
  CopyInAndWait(0, 7);
  ASSERT_TRUE(device_->Map(*range, 2, 7).ok());
  EXPECT_TRUE(PageIs(PageOf(*range, 2), 11));
  FillPage(PageOf(*range, 2), 12);
  CopyOutAndWait(7, 1);
  EXPECT_TRUE(AllAre(host_->Frame(1), 12));
  EXPECT_FALSE(GetParam().accessible(PageOf(*range, 1)));
  EXPECT_FALSE(GetParam().accessible(PageOf(*range, 3)));
}

TEST_P(DeviceContractTest, MappingAgainReplacesTheFrame) {
  const auto range = Reserve(1);
  FillFrame(1, 21);
  FillFrame(2, 22);
  ASSERT_TRUE(device_->Map(*range, 0, 1).ok());
  ASSERT_TRUE(device_->Map(*range, 0, 2).ok());
  EXPECT_TRUE(PageIs(range->base(), 22));
  EXPECT_TRUE(FrameIs(1, 21));
}

TEST_P(DeviceContractTest, AnUnmappedPageIsInaccessibleAndItsFrameKeepsItsBytes) {
  const auto range = Reserve(3);
  for (std::uint32_t page = 0; page < 3; ++page) {
    FillFrame(page, 30 + page);
    ASSERT_TRUE(device_->Map(*range, page, page).ok());
  }
  ASSERT_TRUE(device_->Unmap(*range, 1).ok());
  EXPECT_TRUE(PageIs(range->base(), 30));
  EXPECT_FALSE(GetParam().accessible(PageOf(*range, 1)));
  EXPECT_TRUE(PageIs(PageOf(*range, 2), 32));
  EXPECT_TRUE(FrameIs(1, 31));
}

TEST_P(DeviceContractTest, OneFrameUnderTwoAddressesIsOneMemory) {
  const auto first = Reserve(1);
  const auto second = Reserve(2);
  ASSERT_TRUE(device_->Map(*first, 0, 3).ok());
  ASSERT_TRUE(device_->Map(*second, 1, 3).ok());
  FillPage(first->base(), 41);
  EXPECT_TRUE(PageIs(PageOf(*second, 1), 41));
}

TEST_P(DeviceContractTest, ResizeGivesMemoryBackAndTakesItAgain) {
  FillFrame(0, 51);
  const auto fewer = device_->Resize(1);
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_GE(*fewer, 1u);
  EXPECT_LT(*fewer, kFrames) << "at least a chunk went back";
  EXPECT_EQ(device_->frame_count(), *fewer);
  EXPECT_EQ(device_->allocated_bytes(), *fewer * page_bytes());
  const auto all = device_->Resize(kFrames);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(*all, kFrames);
  EXPECT_TRUE(FrameIs(0, 51));
  Fill(host_->Frame(0), 52);
  CopyInAndWait(0, kFrames - 1);
  EXPECT_TRUE(FrameIs(kFrames - 1, 52));
  EXPECT_FALSE(device_->Resize(kFrames + 1).ok()) << "no more than at creation";
}

TEST_P(DeviceContractTest, NotificationsOfAStreamComeInOrder) {
  const auto stream = device_->CreateStream().value();
  std::vector<int> order;
  for (int i = 0; i < 20; ++i) {
    const absl::Status taken = stream->Notify([&order, i](const absl::Status& status) {
      if (status.ok()) order.push_back(i);
    });
    ASSERT_TRUE(taken.ok()) << taken;
  }
  stream->Synchronize();
  ASSERT_EQ(order.size(), 20u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_FALSE(stream->InOwnWork());
}

TEST_P(DeviceContractTest, DestroyingAStreamMakesItsNotifications) {
  int notified = 0;
  auto stream = device_->CreateStream().value();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(stream->Notify([&](const absl::Status&) { ++notified; }).ok());
  }
  stream.reset();
  EXPECT_EQ(notified, 20);
}

}  // namespace sluice::device
