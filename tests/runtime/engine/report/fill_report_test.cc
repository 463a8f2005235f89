#include "runtime/engine/report/fill_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::engine {
namespace {

TEST(FillReportTest, TellsAtOnceAndThenEveryTenSeconds) {
  std::chrono::steady_clock::time_point now{};
  std::vector<std::string> lines;
  FillReport report([&](LogLevel, std::string_view line) { lines.emplace_back(line); },
                    [&] { return now; });
  io::FillProgress progress{.directory = "/d", .reason = "no", .bytes_all = 40 << 20};
  for (int second = 0; second <= 20; ++second) {
    report.Tell(progress);
    now += std::chrono::seconds(1);
    progress.filled += 1 << 20;
  }
  const std::string begin = "spill directory /d: no; the files are written in full first: ";
  EXPECT_EQ(lines,
            (std::vector<std::string>{
                begin + "0 B of 40 MiB", begin + "10 MiB of 40 MiB", begin + "20 MiB of 40 MiB"}));
}

TEST(FillReportTest, TellsNobodyWhereNobodyAsked) {
  FillReport(LogSink()).Tell({.directory = "/d"});
}

}  // namespace
}  // namespace sluice::engine
