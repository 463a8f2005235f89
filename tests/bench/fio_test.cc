#include "bench/store/system/fio.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::bench {
namespace {

using ::testing::Contains;
using testing::IsStatus;
using ::testing::Not;

FioJob MakeJob(Direction direction, Pattern pattern) {
  return {.file_fds = {7, 8},
          .load = {.which = {.direction = direction, .pattern = pattern, .page_bytes = 1 << 20},
                   .depth = 32,
                   .milliseconds = 1000,
                   .file_bytes = 64 << 20}};
}

TEST(FioTest, CommandSaysWhatOursDoes) {
  const auto words = FioCommand(MakeJob(Direction::kMix, Pattern::kRandom));
  EXPECT_EQ(words.front(), "fio");
  for (const char* word : {"--ioengine=io_uring",
                           "--direct=1",
                           "--mem=mmaphuge",
                           "--hugepage-size=2m",
                           "--runtime=1000ms",
                           "--time_based",
                           "--output-format=json",
                           "--scramble_buffers=0",
                           "--randrepeat=0",
                           "--rw=randrw",
                           "--bs=1048576",
                           "--size=67108864",
                           "--file_service_type=random",
                           "--iodepth=32"}) {
    EXPECT_THAT(words, Contains(word));
  }
  EXPECT_THAT(words, Contains(fmt::format("--filename=/proc/{0}/fd/7:/proc/{0}/fd/8", getpid())));
}

TEST(FioTest, AMixKeepsTheBuffersAsTheyAre) {
  const auto words = FioCommand(MakeJob(Direction::kMix, Pattern::kRandom));
  const auto pattern = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.starts_with("--buffer_pattern=");
  });
  const auto refill = std::find(words.begin(), words.end(), "--refill_buffers=0");
  ASSERT_NE(refill, words.end());
  EXPECT_LT(pattern, refill) << "the pattern says the opposite, and what comes last counts";
}

TEST(FioTest, DirectionAndPatternMakeTheWord) {
  const auto words = [](Direction direction, Pattern pattern) {
    return FioCommand(MakeJob(direction, pattern));
  };
  EXPECT_THAT(words(Direction::kRead, Pattern::kSeq), Contains("--rw=read"));
  EXPECT_THAT(words(Direction::kRead, Pattern::kRandom), Contains("--rw=randread"));
  EXPECT_THAT(words(Direction::kWrite, Pattern::kSeq), Contains("--rw=write"));
  EXPECT_THAT(words(Direction::kWrite, Pattern::kRandom), Contains("--rw=randwrite"));
  EXPECT_THAT(words(Direction::kMix, Pattern::kSeq), Contains("--rw=rw"));
}

TEST(FioTest, BufferedPassesThePagesOnceAndSyncs) {
  FioJob job = MakeJob(Direction::kWrite, Pattern::kRandom);
  job.buffered = true;
  const auto words = FioCommand(job);
  EXPECT_THAT(words, Contains("--direct=0"));
  EXPECT_THAT(words, Contains("--end_fsync=1"));
  EXPECT_THAT(words, Not(Contains("--time_based")));
}

constexpr char kReport[] = R"(note: a remark of fio {with braces}
{
  "fio version" : "fio-3.33",
  "jobs" : [ {
    "error" : 0,
    "job_runtime" : 2000,
    "usr_cpu" : 3.0,
    "sys_cpu" : 7.0,
    "read" : { "io_bytes" : 1073741824, "runtime" : 2000 },
    "write" : { "io_bytes" : 3221225472, "runtime" : 1999 }
  } ]
}
)";

TEST(FioTest, ReportGivesBytesTimeAndCpu) {
  const absl::StatusOr<Sample> sample = ParseFio(kReport);
  ASSERT_THAT(sample, testing::IsOk());
  EXPECT_EQ(sample->bytes, std::uint64_t{4} << 30);
  EXPECT_DOUBLE_EQ(sample->GiBPerSecond(), 2);
  EXPECT_DOUBLE_EQ(sample->cpu_seconds, 0.2);
  EXPECT_DOUBLE_EQ(sample->CpuSecondsPerGiB(), 0.05);
}

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(FioTest, AFailedRunIsAnError) {
  const auto code = absl::StatusCode::kInternal;
  EXPECT_THAT(ParseFio(""), IsStatus(code, "cannot be read"));
  EXPECT_THAT(ParseFio("{\n\"jobs\": [}"), IsStatus(code, "cannot be read"));
  EXPECT_THAT(ParseFio("{\n\"jobs\": []}"), IsStatus(code, "cannot be read"));
  EXPECT_THAT(ParseFio("{\n\"jobs\": [7]}"), IsStatus(code, "cannot be read"));
  EXPECT_THAT(ParseFio("{\n\"jobs\": [{}]}"), IsStatus(code, "moved nothing"));
  EXPECT_THAT(ParseFio("{\n\"jobs\": [{\"read\": {\"io_bytes\": \"1\"}}]}"),
              IsStatus(code, "moved nothing"));
  EXPECT_THAT(ParseFio(Replace(kReport, "\"error\" : 0", "\"error\" : 5")),
              IsStatus(code, "the job failed"));
}

TEST(FioTest, MissingProgramNamesThePackage) {
  EXPECT_THAT(CheckFio("fio-that-nobody-has", {}),
              IsStatus(absl::StatusCode::kFailedPrecondition, "apt-get install fio"));
  EXPECT_THAT(CheckFio("false", {}),
              IsStatus(absl::StatusCode::kFailedPrecondition, "package fio"));
  EXPECT_THAT(CheckFio("true", {}), testing::IsOk());
}

TEST(FioTest, FailureOfTheProgramIsAnError) {
  FioJob job = MakeJob(Direction::kRead, Pattern::kSeq);
  job.program = "false";
  job.file_fds.clear();
  EXPECT_THAT(RunFio(job, {}), IsStatus(absl::StatusCode::kInternal, "exit code 1"));
}

}  // namespace
}  // namespace sluice::bench
