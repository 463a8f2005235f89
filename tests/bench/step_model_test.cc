#include "bench/step/step_model.h"

#include <cmath>
#include <cstring>

#include "bench/step/numbers.h"
#include "bench/step/peak_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::bench {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;

constexpr std::uint64_t kSmallCount = 1 << 20;
constexpr double kMiBytes = 1 << 20;

// 2 MiB of dram for 12 MiB of fp32 parameters and states, in three tensors and a rest.
StepModelOptions Small(const tools::TemporaryDirectory& disk, const StepCase& which) {
  return {.which = which,
          .parameters = kSmallCount,
          .tensor_parameters = 300 << 10,
          .directory = disk.path(),
          .page_bytes = 64 << 10,
          .threads = 2};
}

TEST(NumbersTest, DependOnNothingButTheirIndex) {
  std::vector<float> whole(1000), part(100);
  FillNumbers(Numbers::kParameters, 4, 50, std::as_writable_bytes(std::span(whole)));
  FillNumbers(Numbers::kParameters, 4, 450, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(std::memcmp(whole.data() + 400, part.data(), 400), 0);
  for (const float number : whole) {
    EXPECT_GE(std::abs(number), 0.5f);
    EXPECT_LT(std::abs(number), 1.0f);
  }
  EXPECT_NE(whole[0], whole[1]);
}

TEST(NumbersTest, Bf16IsTheUpperHalf) {
  std::vector<std::uint32_t> words(64);
  std::vector<std::uint16_t> halves(64);
  FillNumbers(Numbers::kGradients, 4, 7, std::as_writable_bytes(std::span(words)));
  FillNumbers(Numbers::kGradients, 2, 7, std::as_writable_bytes(std::span(halves)));
  for (std::size_t i = 0; i < words.size(); ++i) EXPECT_EQ(halves[i], words[i] >> 16);
}

TEST(StepModelTest, EveryTypeGivesTheBitsOfTheKernel) {
  for (const StepCase& which : StepCases()) {
    const tools::TemporaryDirectory disk;
    SCOPED_TRACE(CaseName(which, kSmallCount));
    const auto model = StepModel::Create(Small(disk, which));
    ASSERT_THAT(model, IsOk());
    ASSERT_THAT((*model)->Measure(), IsOk());
    const auto differs = (*model)->Difference();
    ASSERT_THAT(differs, IsOk());
    EXPECT_EQ(*differs, "");
  }
}

TEST(StepModelTest, AStepMovesWhatDoesNotFit) {
  const tools::TemporaryDirectory disk;
  const auto model = StepModel::Create(Small(disk, {}));
  ASSERT_THAT(model, IsOk());
  ASSERT_THAT((*model)->Measure(), IsOk());
  const auto sample = (*model)->Measure();
  ASSERT_THAT(sample, IsOk());
  // 10 of 12 MiB each way. A busy machine reads some of it twice, ahead of its time.
  EXPECT_GT(sample->read_bytes, 9.5 * kMiBytes);
  EXPECT_LT(sample->read_bytes, 18 * kMiBytes);
  EXPECT_GT(sample->written_bytes, 9.5 * kMiBytes);
  EXPECT_LT(sample->written_bytes, 18 * kMiBytes);
  EXPECT_GT(sample->compute_seconds, 0);
  EXPECT_LT(sample->compute_seconds + sample->wait_seconds, sample->seconds);
  EXPECT_DOUBLE_EQ(sample->wait_read_seconds + sample->wait_write_seconds, sample->wait_seconds);
  EXPECT_GT(sample->wait_read_seconds, 0);
  EXPECT_GT(sample->read_busy_seconds, 0);
  EXPECT_GT(sample->write_busy_seconds, 0);
}

TEST(StepModelTest, AWrongBitIsNamed) {
  const tools::TemporaryDirectory disk;
  const auto model = StepModel::Create(Small(disk, {}));
  ASSERT_THAT(model, IsOk());
  ASSERT_THAT((*model)->Measure(), IsOk());
  // The reference will see another gradient than the steps did: of the second tensor's first.
  (*model)->gradients()[(300 << 10) * 4 + 3] ^= std::byte{0x80};
  const auto differs = (*model)->Difference();
  ASSERT_THAT(differs, IsOk());
  EXPECT_THAT(*differs, HasSubstr("after 4 steps element 0 of p1"));
}

TEST(StepModelTest, AnInterruptEndsIt) {
  const tools::TemporaryDirectory disk;
  StepModelOptions options = Small(disk, {});
  options.interrupted = [] { return true; };
  const auto model = StepModel::Create(options);
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ((*model)->Measure().status().code(), absl::StatusCode::kCancelled);
}

TEST(StepModelTest, FilesAreNoLargerThanSaid) {
  for (const StepCase& which : StepCases()) {
    const tools::TemporaryDirectory disk;
    const StepModelOptions options = Small(disk, which);
    EXPECT_GE(static_cast<double>(StepModel::DiskBytesOf(options)), KeptBytes(which, kSmallCount));
    EXPECT_THAT(StepModel::Create(options), IsOk()) << CaseName(which, kSmallCount);
  }
}

TEST(PeakMemoryTest, CountsWhatCameSince) {
  constexpr std::size_t kBytes = 64 << 20;
  const PeakMemory peak;
  if (!peak.Bytes().has_value()) GTEST_SKIP() << "the system does not tell the peak of memory";
  ASSERT_THAT(PageBuffers::Create(1, kBytes), IsOk());  // memory that is freed at once
  EXPECT_GE(*peak.Bytes(), kBytes / 2);
  EXPECT_LT(*PeakMemory().Bytes(), kBytes / 2);
}

}  // namespace
}  // namespace sluice::bench
