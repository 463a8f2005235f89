#include "bench/device/plain_cuda.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numa/arena.h"
#include "tests/support/cuda/fake_cuda.h"

namespace sluice::bench {
namespace {

constexpr std::uint64_t kHostPage = std::uint64_t{2} << 20;
constexpr std::uint32_t kHostPages = 8;

class PlainCudaTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<PlainCuda>> Make(testing::FakeCuda& fake) {
    auto arena =
        numa::Arena::Create({.name = "host", .page_bytes = kHostPage, .frames = kHostPages});
    if (!arena.ok()) return arena.status();
    host_ = *std::move(arena);
    return PlainCuda::Create(
        fake.api(),
        {.page_bytes = kHostPage, .host = {host_->Frame(0).data(), kHostPages * kHostPage}});
  }

  std::unique_ptr<numa::Arena> host_;
};

TEST_F(PlainCudaTest, RatesAreThoseOfTheDriversCopies) {
  for (const bool batches : {true, false}) {
    testing::FakeCuda fake({.batch_copies = batches});
    {
      auto plain = Make(fake);
      ASSERT_TRUE(plain.ok()) << plain.status();
      const absl::StatusOr<device::CopyRates> rates = (*plain)->Rates(/*milliseconds=*/20);
      ASSERT_TRUE(rates.ok()) << rates.status();
      EXPECT_GT(rates->in, 0);
      EXPECT_GT(rates->out, 0);
      EXPECT_GT(rates->both, 0);
      const std::uint64_t before = fake.bytes_in();
      const std::uint64_t of_batches = fake.calls(testing::FakeEntry::kCopyBatch);
      ASSERT_TRUE((*plain)->SecondsOfOneCopyIn().ok());
      EXPECT_EQ(fake.calls(testing::FakeEntry::kCopyBatch), of_batches);
      EXPECT_EQ(fake.bytes_in() - before, kHostPage);
      EXPECT_EQ(fake.blocking_copies(), 0U);
    }
    EXPECT_THAT(fake.Leaks(), ::testing::IsEmpty());
  }
}

TEST_F(PlainCudaTest, AFailedCallIsReportedAndLeavesNothing) {
  const std::uint64_t calls = [&] {
    testing::FakeCuda fake;
    EXPECT_TRUE(Make(fake).ok());
    return fake.calls();
  }();
  for (std::uint64_t nth = 1; nth <= calls; ++nth) {
    testing::FakeCuda fake;
    fake.Inject({.nth = nth, .code = device::kCudaOutOfMemory});
    {
      auto plain = Make(fake);
      if (plain.ok()) break;  // the rest is the destructor's
      EXPECT_TRUE(fake.injected().has_value());
    }
    EXPECT_THAT(fake.Leaks(), ::testing::IsEmpty()) << nth;
  }
}

}  // namespace
}  // namespace sluice::bench
