#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::ByteTensor;
using testing::IsOk;
using testing::Pattern;
using testing::RuntimeFixture;

/// Tensors of many sizes, four times what hbm and dram hold together, written in one tier and read
/// in another, twice.
void RoundTrip(RuntimeFixture& runtime, TierId write_tier, TierId read_tier) {
  std::vector<TensorId> tensors;
  std::vector<std::vector<std::byte>> expected;
  for (std::uint64_t i = 0; i < 48; ++i) {
    const std::uint64_t bytes = 100 + i * 700 % (7 * kPage);
    tensors.push_back(runtime.Make("t" + std::to_string(i), bytes));
    expected.push_back(Pattern(i, bytes));
    runtime.Write(tensors[i], expected[i], 0, write_tier);
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(runtime.Read(tensors[i], read_tier), expected[i]) << "tensor " << i;
    }
  }
}

TEST(RoundTripTest, WrittenInDramReadInHbm) {
  RuntimeFixture runtime;
  runtime.Start();
  RoundTrip(runtime, kDram0, kHbm0);
}

TEST(RoundTripTest, WrittenInHbmReadInDram) {
  RuntimeFixture runtime;
  runtime.Start();
  RoundTrip(runtime, kHbm0, kDram0);
  const Stats stats = runtime->GetStats();
  EXPECT_GT(stats.links.at("dram-nvme").out.bytes, 0u);
  EXPECT_GT(stats.links.at("hbm-dram").out.bytes, 0u);
}

TEST(RoundTripTest, BytesSurviveWithoutHbm) {
  RuntimeFixture runtime;
  runtime.options.hbm_bytes = Bytes();
  runtime.Start();
  RoundTrip(runtime, kDram0, kDram0);
}

TEST(RoundTripTest, BytesSurviveWithoutNvme) {
  RuntimeFixture runtime;
  runtime.options.nvme_bytes = Bytes();
  runtime.options.dram_bytes = Bytes(512 * kPage);
  runtime.Start();
  RoundTrip(runtime, kHbm0, kHbm0);
}

TEST(RoundTripTest, BytesSurviveLruAndManyWorkers) {
  RuntimeFixture runtime;
  runtime.options.policy = "lru";
  runtime.options.worker_threads = 3;
  runtime.Start();
  RoundTrip(runtime, kDram0, kHbm0);
}

TEST(RoundTripTest, BytesSurviveTheSmallestBudgets) {
  RuntimeFixture runtime;
  runtime.options.hbm_bytes = Bytes(kPage);
  runtime.options.dram_bytes = Bytes(5 * kPage);
  runtime.Start();
  RoundTrip(runtime, kDram0, kHbm0);
}

TEST(RoundTripTest, BytesSurviveATinyRequestQueue) {
  RuntimeFixture runtime;
  runtime.options.request_queue_capacity = 1;
  runtime.Start();
  RoundTrip(runtime, kDram0, kDram0);
}

TEST(RoundTripTest, NewTensorsReadAsZeros) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensor = runtime.Make("zeros", 3 * kPage + 17);
  EXPECT_EQ(runtime.Read(tensor, kHbm0), std::vector<std::byte>(3 * kPage + 17));
}

TEST(RoundTripTest, AddressIsStableThroughEvictions) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensor = runtime.Make("stable", 2 * kPage);
  const TensorId other = runtime.Make("other", 300 * kPage);
  const auto pattern = Pattern(7, 2 * kPage);
  runtime.Write(tensor, pattern);
  std::byte* address = nullptr;
  for (int pass = 0; pass < 3; ++pass) {
    auto lease = runtime.Acquire({.tensor = tensor, .tier = kHbm0});
    ASSERT_THAT(lease, IsOk());
    if (address == nullptr) address = lease->Contiguous().data();
    EXPECT_EQ(lease->Contiguous().data(), address);
    EXPECT_TRUE(std::equal(pattern.begin(), pattern.end(), lease->Contiguous().begin()));
    lease->Release();
    runtime.Write(other, Pattern(static_cast<std::uint64_t>(pass), 300 * kPage), 0, kHbm0);
  }
}

/// Whether the address may be read, as the kernel sees it.
bool Accessible(const std::byte* address) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const bool accessible = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return accessible;
}

TEST(RoundTripTest, AddressesOfEvictedPagesAreInaccessibleWhereMappingsAreNotKept) {
  RuntimeFixture runtime;
  runtime.options.memory.keep_mappings = false;
  runtime.Start();
  const TensorId tensor = runtime.Make("evicted", kPage);
  const TensorId other = runtime.Make("other", 300 * kPage);
  for (const TierId tier : {kHbm0, kDram0}) {
    auto lease = runtime.Acquire({.tensor = tensor, .tier = tier});
    ASSERT_THAT(lease, IsOk());
    const std::byte* address = lease->Contiguous().data();
    EXPECT_TRUE(Accessible(address));
    lease->Release();
    runtime.Write(other, Pattern(1, 300 * kPage), 0, tier);
    // One more mapping: when it is there, the unmappings before it have been made too.
    ASSERT_THAT(runtime.Acquire({.tensor = other, .range = {0, kPage}, .tier = tier}), IsOk());
    EXPECT_FALSE(Accessible(address)) << ToString(tier);
  }
}

TEST(RoundTripTest, TensorsThatTakeThePlaceOfFreedOnesAreMapped) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId stays = runtime.Make("stays", 3 * kPage);
  for (int round = 0; round < 300; ++round) {
    const auto bytes = Pattern(static_cast<std::uint64_t>(round), kPage);
    const TensorId tensor = runtime.Make("short-lived", kPage);
    const TierId tier = round % 2 == 0 ? kHbm0 : kDram0;
    auto lease = runtime.Acquire({.tensor = tensor, .mode = AccessMode::kOverwrite, .tier = tier});
    ASSERT_THAT(lease, IsOk());
    std::copy(bytes.begin(), bytes.end(), lease->Contiguous().begin());
    lease->Release();
    EXPECT_EQ(runtime.Read(tensor, tier), bytes);
    ASSERT_THAT(runtime->Free(tensor), IsOk());
    // Keeps the mapper busy now and then.
    if (round % 7 == 0) runtime.Write(stays, Pattern(1, 3 * kPage), 0, tier);
  }
}

TEST(RoundTripTest, ContiguousAndSpansAreTheSameBytes) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensor = runtime.Make("both", 3 * kPage);
  auto lease = runtime.Acquire(
      {.tensor = tensor, .range = {100, 2 * kPage}, .mode = AccessMode::kReadWrite, .tier = kHbm0});
  ASSERT_THAT(lease, IsOk());
  ASSERT_EQ(lease->Spans().size(), 3u);
  EXPECT_EQ(lease->Spans()[0].size(), kPage - 100);
  EXPECT_EQ(lease->Spans()[1].size(), kPage);
  EXPECT_EQ(lease->Spans()[2].size(), 100u);
  const std::span<std::byte> whole = lease->Contiguous();
  ASSERT_EQ(whole.size(), 2 * kPage);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<std::byte>(i * 7);
  std::size_t at = 0;
  for (const std::span<std::byte> span : lease->Spans()) {
    for (const std::byte byte : span) ASSERT_EQ(byte, static_cast<std::byte>(at++ * 7));
  }
}

}  // namespace
}  // namespace sluice
