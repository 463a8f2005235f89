#include "bench/store/store_bench.h"

#include <chrono>
#include <filesystem>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/store/page_store.h"
#include "tests/bench/fake_fio.h"
#include "tests/support/status_matchers.h"

namespace sluice::bench {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::HasCode;
using ::testing::IsEmpty;
using testing::IsStatus;

/// A tiny benchmark with a fake fio and a fake reservation of huge pages.
class StoreBenchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.directory = disk_.path();
    options_.file_bytes = 64 << 20;
    options_.pattern = "1MiB";
    options_.rounds = 1;
    options_.milliseconds = 20;
    options_.huge_pages_path = programs_.Write("nr_hugepages", "0\n");
    options_.fio = WriteFakeFio(programs_, kFakeReport);
  }

  void TearDown() override {
    EXPECT_THAT(disk_.Names(), IsEmpty());
    EXPECT_EQ(tools::ReadWhole(programs_ / "nr_hugepages"), "0\n");
  }

  absl::Status Run() {
    return RunStoreBench(options_, [this](const Row& row) { rows_.push_back(row); });
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const Row& row : rows_) names.push_back(row.name);
    return names;
  }

  const tools::TemporaryDirectory disk_{};
  const tools::TemporaryDirectory programs_{};
  StoreBenchOptions options_;
  std::vector<Row> rows_;
};

// A feature that the machine refuses leads to a skip that names it.
#define RUN_OR_SKIP()                                                          \
  do {                                                                         \
    const absl::Status status = Run();                                         \
    if (absl::IsFailedPrecondition(status)) GTEST_SKIP() << status.ToString(); \
    ASSERT_THAT(status, testing::IsOk());                                      \
  } while (false)

TEST_F(StoreBenchTest, ACaseIsJudgedByFio) {
  options_.pattern = "write/random/1MiB/io_uring";
  RUN_OR_SKIP();
  EXPECT_THAT(Names(), ElementsAre("write/random/1MiB/io_uring", "all/geomean"));
  const Row& row = rows_.front();
  EXPECT_EQ(row.ceiling_of, "fio");
  EXPECT_NEAR(*row.ceiling, 1, 1e-9);
  EXPECT_NEAR(*row.ratio, row.value, 1e-9);
  EXPECT_DOUBLE_EQ(*row.control_low, 1);
  EXPECT_EQ(*row.depth, 8U);
  EXPECT_NEAR(*row.bar, 0.97, 1e-9);
  EXPECT_EQ(row.reps, 1);
  EXPECT_GT(row.value, 0);
  EXPECT_NEAR(*row.cpu_ratio, *row.cpu_per_gib / 0.1, 1e-9);
}

TEST_F(StoreBenchTest, ThePlainLoopIsARowBesideFio) {
  options_.pattern = "read/random/2MiB/io_uring";
  options_.file_bytes = 64 << 20;
  RUN_OR_SKIP();
  const std::vector<std::string> names = Names();
  ASSERT_GE(names.size(), 3U);
  EXPECT_EQ(names[1], "plain-loop/read/random/2MiB/io_uring");
  EXPECT_NEAR(*rows_[1].ratio, rows_[1].value, 1e-9);
}

/// A fake fio whose n-th run moves n GiB; `state` is a file of its own, a line for each run.
std::string FioThatGetsFaster(const std::filesystem::path& state) {
  return "echo >> " + state.string() + "; bytes=$((1073741824 * $(wc -l < " + state.string() +
         ")))\n(\n" + kFakeReport + ") | sed \"s/1073741824/$bytes/\"\n";
}

TEST_F(StoreBenchTest, ThePlainLoopRunsInFullBetweenTwoRunsOfFio) {
  options_.pattern = "mix/random/2MiB/io_uring";
  options_.file_bytes = 64 << 20;
  options_.milliseconds = 600;
  options_.fio = WriteFakeFio(programs_, FioThatGetsFaster(programs_ / "runs"));
  const auto begin = std::chrono::steady_clock::now();
  RUN_OR_SKIP();
  // Ours and the loop.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2 * 600));
  EXPECT_DOUBLE_EQ(*rows_[0].ceiling, 1.5);  // the first run and the second
  ASSERT_EQ(rows_[1].name, "plain-loop/mix/random/2MiB/io_uring");
  EXPECT_DOUBLE_EQ(*rows_[1].ceiling, 2.5);  // the second and the third
  EXPECT_DOUBLE_EQ(*rows_[1].control, 1.5);
  EXPECT_EQ(tools::ReadWhole(programs_ / "runs"), "\n\n\n");
}

TEST_F(StoreBenchTest, ThePlainLoopIsTheCeilingWithoutHugePages) {
  options_.huge_pages_path = programs_ / "missing";
  std::string warning;
  options_.warn = [&warning](const std::string& line) { warning += line; };
  options_.pattern = "mix/seq/1MiB";
  RUN_OR_SKIP();
  EXPECT_THAT(Names(), ElementsAre("mix/seq/1MiB/io_uring", "all/geomean"));
  EXPECT_EQ(rows_.front().ceiling_of, "plain-loop");
  EXPECT_THAT(warning, ::testing::HasSubstr("huge pages"));
  EXPECT_GT(*rows_.front().ratio, 0);
}

TEST_F(StoreBenchTest, ThreadsAreMeasuredWithoutIoUring) {
  options_.pattern = "write/random/2MiB/threads";
  RUN_OR_SKIP();
  EXPECT_EQ(Names().front(), "write/random/2MiB/threads");
  EXPECT_THAT(Names(), Each(EndsWith("write/random/2MiB/threads")));
}

TEST_F(StoreBenchTest, PeersAreComparedNotJudged) {
  options_.pattern = "peer/read/";
  RUN_OR_SKIP();
  ASSERT_EQ(rows_.size(), 5U);
  EXPECT_EQ(rows_[2].name, "peer/read/random/2MiB/buffered");
  EXPECT_EQ(rows_[3].name, "peer/read/random/2MiB/fio-libaio");
  for (const Row& row : {rows_[2], rows_[3]}) {
    EXPECT_FALSE(row.ratio.has_value());
    EXPECT_NEAR(*row.peer_value, 1, 1e-9);
    EXPECT_NEAR(*row.peer_ratio, row.value, 1e-9);
  }
}

TEST_F(StoreBenchTest, AnFioThatFailsEndsIt) {
  options_.fio = WriteFakeFio(programs_, "echo 'fio: out of luck'; exit 1\n");
  options_.pattern = "read/seq/1MiB";
  const absl::Status status = Run();
  if (absl::IsFailedPrecondition(status)) GTEST_SKIP() << status.ToString();
  EXPECT_THAT(status, IsStatus(absl::StatusCode::kInternal, "out of luck"));
  EXPECT_THAT(rows_, IsEmpty());
}

TEST_F(StoreBenchTest, AnInterruptEndsIt) {
  options_.interrupted = [] { return true; };
  const absl::Status status = Run();
  if (absl::IsFailedPrecondition(status)) GTEST_SKIP() << status.ToString();
  EXPECT_THAT(status, HasCode(absl::StatusCode::kCancelled));
}

TEST_F(StoreBenchTest, AnInterruptEndsTheFirstWriting) {
  std::string doing;
  int asked = 0;
  options_.progress = [&doing](const std::string& line) { doing = line; };
  options_.interrupted = [&] { return doing == "writing the files" && ++asked >= 3; };
  const absl::Status status = Run();
  if (absl::IsFailedPrecondition(status)) GTEST_SKIP() << status.ToString();
  EXPECT_THAT(status, HasCode(absl::StatusCode::kCancelled));
  EXPECT_EQ(doing, "writing the files") << "nothing comes after it";
  EXPECT_LT(asked, 30) << "of 64 pages";
}

TEST_F(StoreBenchTest, MistakesOfTheUserAreReportedFirst) {
  const auto with = [this](auto change) {
    StoreBenchOptions options = options_;
    change(options);
    return RunStoreBench(options, [](const Row&) { ADD_FAILURE() << "nothing is measured"; });
  };
  EXPECT_THAT(with([](auto& options) { options.directory = ""; }),
              IsStatus(absl::StatusCode::kInvalidArgument, "name one"));
  EXPECT_THAT(with([](auto& options) { options.directory += "/missing"; }),
              IsStatus(absl::StatusCode::kNotFound, "mkdir"));
  EXPECT_THAT(with([this](auto& options) { options.directory = programs_.Write("file", ""); }),
              IsStatus(absl::StatusCode::kInvalidArgument, "not a directory"));
  EXPECT_THAT(with([](auto& options) { options.file_bytes = std::uint64_t{1} << 50; }),
              IsStatus(absl::StatusCode::kResourceExhausted, "make room"));
  EXPECT_THAT(with([](auto& options) { options.file_bytes = (64 << 20) + 4096; }),
              IsStatus(absl::StatusCode::kInvalidArgument, "a multiple of 8MiB"));
  EXPECT_THAT(with([](auto& options) { options.pattern = "read/sek/1MiB/io_uring"; }),
              IsStatus(absl::StatusCode::kInvalidArgument, "read/seq/1MiB/io_uring"));
  EXPECT_THAT(
      with([](auto& options) { options.pattern = "8MiB"; }),
      IsStatus(absl::StatusCode::kInvalidArgument, "too little for read/seq/8MiB/io_uring"));
  EXPECT_THAT(with([](auto& options) { options.fio = "fio-that-nobody-has"; }),
              IsStatus(absl::StatusCode::kFailedPrecondition, "package fio"));
}

}  // namespace
}  // namespace sluice::bench
