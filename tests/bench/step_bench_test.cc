#include "bench/step/step_bench.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/fake_fio.h"
#include "tests/support/status_matchers.h"

namespace sluice::bench {
namespace {

using ::testing::ElementsAre;
using testing::HasCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsStatus;

constexpr std::uint64_t kStepCount = 1 << 20;
constexpr double kStepMiB = 1 << 20;

/// A tiny benchmark; fio tells 1 GiB/s, and the reservation of huge pages is a file.
class StepBenchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.directory = disk_.path();
    options_.parameters = kStepCount;
    options_.tensor_parameters = kStepCount / 4;
    options_.rounds = 2;
    options_.milliseconds = 20;
    options_.fio_bytes = 64 << 20;
    options_.page_bytes = 64 << 10;
    options_.huge_pages_path = programs_.Write("nr_hugepages", "0\n");
    options_.fio = WriteFakeFio(programs_, kFakeReport);
  }

  void TearDown() override {
    EXPECT_THAT(disk_.Names(), IsEmpty());
    EXPECT_EQ(tools::ReadWhole(programs_ / "nr_hugepages"), "0\n");
  }

  absl::StatusOr<std::string> Run() {
    return RunStepBench(options_, [this](const Row& row) { rows_.push_back(row); });
  }

  const tools::TemporaryDirectory disk_{};
  const tools::TemporaryDirectory programs_{};
  StepBenchOptions options_;
  std::vector<Row> rows_;
};

// A feature that the machine refuses leads to a skip that names it.
#define RUN_STEPS_OR_SKIP()                                                             \
  do {                                                                                  \
    const absl::StatusOr<std::string> differs = Run();                                  \
    if (absl::IsFailedPrecondition(differs.status())) GTEST_SKIP() << differs.status(); \
    ASSERT_THAT(differs, testing::IsOk());                                              \
    EXPECT_EQ(*differs, "");                                                            \
  } while (false)

TEST_F(StepBenchTest, AStepIsHeldToTheDisk) {
  options_.pattern = "adamw/fp32/fp32/2MiB";
  RUN_STEPS_OR_SKIP();
  ASSERT_EQ(rows_.size(), 1U);
  const Row& row = rows_.front();
  EXPECT_EQ(row.name, "adamw/fp32/fp32/2MiB");
  EXPECT_EQ(row.unit, "Gparameters/s");
  EXPECT_EQ(row.ceiling_of, "fio");
  EXPECT_EQ(row.depth, 32U);  // requests of 64 KiB
  EXPECT_EQ(row.reps, 2);
  ASSERT_TRUE(row.step.has_value());
  // 2 x (12 - 2) MiB at 1 GiB/s.
  EXPECT_NEAR(row.step->floor_seconds, 20.0 / 1024, 1e-9);
  EXPECT_NEAR(*row.ceiling, kStepCount / 1e9 / (20.0 / 1024), 1e-9);
  EXPECT_NEAR(*row.ratio, row.value / *row.ceiling, 1e-9);
  EXPECT_NEAR(*row.bar, 1 / 1.10, 1e-9);
  EXPECT_DOUBLE_EQ(*row.control_low, 1);
  EXPECT_EQ(row.step->parameters, kStepCount);
  EXPECT_EQ(row.step->budget_bytes, 2U << 20);
  EXPECT_NEAR(*row.ns_per_parameter, row.step->seconds * 1e9 / kStepCount, 1e-9);
  EXPECT_EQ(row.step->peak_rss_limit_bytes, 106U << 20);
  // No upper limit: sanitizers hold memory of their own.
  EXPECT_GT(row.step->peak_rss_bytes.value_or(1U << 30), 4U << 20);
  EXPECT_GT(row.step->read_bytes, 9.5 * kStepMiB);
  EXPECT_GT(row.step->written_bytes, 9.5 * kStepMiB);
}

TEST_F(StepBenchTest, OtherBudgetsAreReported) {
  options_.pattern = "adamw/fp32/fp32/?MiB";
  RUN_STEPS_OR_SKIP();
  ASSERT_EQ(rows_.size(), 2U);
  EXPECT_TRUE(rows_[0].bar.has_value());
  EXPECT_EQ(rows_[1].name, "adamw/fp32/fp32/1MiB");
  EXPECT_FALSE(rows_[1].bar.has_value());
  EXPECT_NEAR(rows_[1].step->floor_seconds, 22.0 / 1024, 1e-9);
}

TEST_F(StepBenchTest, SharesAreHeldToDiskOrMemory) {
  options_.pattern = "/75%";
  RUN_STEPS_OR_SKIP();
  ASSERT_EQ(rows_.size(), 1U);
  EXPECT_EQ(rows_.front().ceiling_of, "fio or byte-loop");
  EXPECT_NEAR(*rows_.front().bar, 1 / 1.15, 1e-9);
  EXPECT_GE(rows_.front().step->floor_seconds, 6.0 / 1024 * 0.999);
}

TEST_F(StepBenchTest, TypesAreHeldToOurOwnFp32Step) {
  options_.pattern = "adamw/*/bf16/2MiB";
  RUN_STEPS_OR_SKIP();
  ASSERT_EQ(rows_.size(), 2U);
  const std::vector<double> limits = {0.70, 0.55};
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const bool kernel = rows_[i].ceiling_of == "kernel";
    EXPECT_TRUE(kernel || rows_[i].ceiling_of == "own fp32 step") << rows_[i].ceiling_of;
    EXPECT_GT(*rows_[i].ratio, 0);
    EXPECT_NEAR(*rows_[i].bar, 1 / (kernel ? 1.10 : limits[i]), 1e-9);
  }
}

TEST_F(StepBenchTest, APolicyMayBeNamed) {
  options_.policy = "lru";
  options_.rounds = 1;
  options_.pattern = "adamw/fp32/fp32/2MiB";
  RUN_STEPS_OR_SKIP();
  EXPECT_EQ(rows_.size(), 1U);
}

TEST_F(StepBenchTest, MistakesOfTheUserAreReportedFirst) {
  const auto with = [this](auto change) {
    StepBenchOptions options = options_;
    change(options);
    return RunStepBench(options, [](const Row&) { ADD_FAILURE() << "nothing is measured"; })
        .status();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(with([](auto& options) { options.directory = ""; }), IsStatus(kInvalid, "--dir"));
  EXPECT_THAT(with([](auto& options) { options.directory += "/missing"; }),
              IsStatus(absl::StatusCode::kNotFound, "mkdir"));
  EXPECT_THAT(with([](auto& options) { options.rounds = 0; }), IsStatus(kInvalid, "rounds"));
  EXPECT_THAT(with([](auto& options) { options.parameters = 100; }),
              IsStatus(kInvalid, "multiples of 4096"));
  EXPECT_THAT(with([](auto& options) { options.page_bytes = 4 << 20; }),
              IsStatus(kInvalid, "2 MiB at most"));
  EXPECT_THAT(with([](auto& options) { options.page_bytes = 2 << 20; }),
              IsStatus(kInvalid, "--mebiparameters"));
  EXPECT_THAT(with([](auto& options) { options.pattern = "adamx"; }),
              IsStatus(kInvalid, "cases have names like adamw/fp32/fp32/2MiB"));
  EXPECT_THAT(with([](auto& options) { options.policy = "lur"; }), IsStatus(kInvalid, "--policy"));
  EXPECT_THAT(with([](auto& options) { options.fio = "fio-that-nobody-has"; }),
              IsStatus(absl::StatusCode::kFailedPrecondition, "package fio"));
  EXPECT_THAT(with([](auto& options) { options.parameters = std::uint64_t{1} << 40; }),
              IsStatus(absl::StatusCode::kResourceExhausted, "--mebiparameters"));
}

TEST_F(StepBenchTest, AnFioThatFailsEndsIt) {
  options_.fio = WriteFakeFio(programs_, "echo 'fio: out of luck'; exit 1\n");
  const absl::Status status = Run().status();
  if (absl::IsFailedPrecondition(status)) GTEST_SKIP() << status.ToString();
  EXPECT_THAT(status, IsStatus(absl::StatusCode::kInternal, "out of luck"));
  EXPECT_THAT(rows_, IsEmpty());
}

TEST_F(StepBenchTest, AnInterruptEndsIt) {
  options_.interrupted = [] { return true; };
  const absl::Status status = Run().status();
  if (absl::IsFailedPrecondition(status)) GTEST_SKIP() << status.ToString();
  EXPECT_THAT(status, HasCode(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace sluice::bench
