#include "bench/store/system/huge_page_reservation.h"

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::bench {
namespace {

TEST(HugePageReservationTest, AddsToWhatThereIsAndGivesItBack) {
  const tools::TemporaryDirectory directory;
  const std::string path = directory.Write("nr_hugepages", "5\n");
  {
    const auto reservation = HugePageReservation::Create(path, 20);
    ASSERT_THAT(reservation, testing::IsOk());
    EXPECT_EQ(tools::ReadWhole(path), "25\n");
  }
  EXPECT_EQ(tools::ReadWhole(path), "5\n");
}

TEST(HugePageReservationTest, KeepsWhatOthersAddedMeanwhile) {
  const tools::TemporaryDirectory directory;
  const std::string path = directory.Write("nr_hugepages", "0\n");
  {
    const auto reservation = HugePageReservation::Create(path, 20);
    ASSERT_THAT(reservation, testing::IsOk());
    directory.Write("nr_hugepages", "23\n");
  }
  EXPECT_EQ(tools::ReadWhole(path), "3\n");
}

TEST(HugePageReservationTest, WithoutTheFileThereIsNone) {
  const tools::TemporaryDirectory directory;
  EXPECT_THAT(HugePageReservation::Create(directory / "missing", 1),
              testing::HasCode(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace sluice::bench
