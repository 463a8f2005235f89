#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file/file_descriptor.h"
#include "nlohmann/json.hpp"
#include "tests/bench/fake_fio.h"
#include "tests/tools/command.h"

namespace sluice::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

/// Whether the command had no huge pages for fio: it takes root, and memory in pieces of 2 MiB.
bool LacksHugePages(const Command& command) {
  return command.errors().find("cannot lie on huge pages") != std::string::npos;
}

bool Exists(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null").c_str()) == 0;
}

/// Whether anything comes within a minute.
bool BecomesReadable(const io::FileDescriptor& fifo) {
  pollfd readable{.fd = fifo.get(), .events = POLLIN, .revents = 0};
  return poll(&readable, 1, 60'000) == 1;
}

std::vector<Json> Lines(const std::string& output) {
  std::vector<Json> lines;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(BenchCommandTest, ATinyRunWithTheRealFio) {
  if (!Exists("fio")) GTEST_SKIP() << "fio is not installed";
  const TemporaryDirectory disk;
  Command command({"bench",
                   "store",
                   "--dir",
                   disk.path(),
                   "--json",
                   "--size",
                   "64MiB",
                   "--rounds",
                   "1",
                   "--milliseconds",
                   "100",
                   "--case",
                   "read/random/2MiB/io_uring"});
  const int exit_code = command.Wait();
  if (command.errors().find("refused") != std::string::npos) GTEST_SKIP() << command.errors();
  ASSERT_EQ(exit_code, 0) << command.errors();
  EXPECT_THAT(disk.Names(), IsEmpty());
  const std::vector<Json> rows = Lines(command.output());
  ASSERT_GE(rows.size(), 2U);
  EXPECT_EQ(rows.front()["bench"], "store");
  EXPECT_EQ(rows.front()["case"], "read/random/2MiB/io_uring");
  EXPECT_GT(rows.front()["ratio"], 0.0);
  EXPECT_GT(rows.front()["cpu_ratio"], 0.0);
  EXPECT_EQ(rows.back()["case"], "all/geomean");
}

TEST(BenchCommandTest, LeasesOfTheEmulatedDeviceAreHeldToPlainCopies) {
  Command command({"bench",
                   "device",
                   "--json",
                   "--quick",
                   "--page",
                   "2MiB",
                   "--hbm",
                   "64MiB",
                   "--weights",
                   "160MiB"});
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const std::vector<Json> rows = Lines(command.output());
  std::vector<std::string> names;
  for (const Json& row : rows) {
    names.push_back(row["case"]);
    EXPECT_GT(row["value"], 0.0) << row;
    EXPECT_GT(row["ceiling"], 0.0) << row;
    const bool is_time = names.back().starts_with("page-in/");
    EXPECT_EQ(row["unit"], is_time ? "us" : "GB/s");
    if (is_time) {
      EXPECT_EQ(row["reps"], 100) << row;
    }
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"in/2MiB/emulated",
                                      "out/2MiB/emulated",
                                      "both/2MiB/emulated",
                                      "weights/2MiB/emulated",
                                      "in/beside-gemm/2MiB/emulated",
                                      "out/beside-gemm/2MiB/emulated",
                                      "both/beside-gemm/2MiB/emulated",
                                      "page-in/in-place/2MiB/emulated",
                                      "page-in/mapped-anew/2MiB/emulated"}));
}

TEST(BenchCommandTest, PagesFromNvmeAreHeldToThePageStoreAlone) {
  const TemporaryDirectory disk;
  Command command({"bench",
                   "device",
                   "--json",
                   "--quick",
                   "--page",
                   "2MiB",
                   "--hbm",
                   "64MiB",
                   "--weights",
                   "160MiB",
                   "--case",
                   "*/nvme",
                   "--dir",
                   disk.path()});
  const int exit_code = command.Wait();
  if (command.errors().find("refused") != std::string::npos) GTEST_SKIP() << command.errors();
  ASSERT_EQ(exit_code, 0) << command.errors();
  EXPECT_THAT(disk.Names(), IsEmpty());
  const std::vector<Json> rows = Lines(command.output());
  ASSERT_EQ(rows.size(), 4U);
  for (const Json& row : rows) {
    EXPECT_EQ(row["ceiling_of"], "page store");
    EXPECT_GT(row["value"], 0.0) << row;
    EXPECT_GT(row["ceiling"], 0.0) << row;
  }
}

TEST(BenchCommandTest, ADeviceThatIsNotThereIsNamed) {
  const auto errors = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"bench", "device"});
    Command command(std::move(words));
    EXPECT_EQ(command.Wait(), 2);
    return command.errors();
  };
  EXPECT_THAT(errors({"--device", "tpu"}), HasSubstr("allowed are emulated, cuda"));
  EXPECT_THAT(errors({"--page", "0"}), HasSubstr("--page: 0 B is no page size; give a power"));
  EXPECT_THAT(errors({"--page", "3MiB"}), HasSubstr("--page: 3 MiB is no page size"));
  EXPECT_THAT(errors({"--gpu", "0"}), HasSubstr("--gpu needs --device cuda"));
  EXPECT_THAT(errors({"--weights", "1MiB"}), HasSubstr("nothing would move"));
  // An empty list hides the GPU of a machine that has one.
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_THAT(errors({"--device", "cuda"}), HasSubstr("CUDA"));
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(BenchCommandTest, AnErrorOfFioIsAnIoFailure) {
  const TemporaryDirectory disk;
  const TemporaryDirectory programs;
  const std::string fio = bench::WriteFakeFio(programs, "exit 1\n");
  Command command({"bench",
                   "store",
                   "--dir",
                   disk.path(),
                   "--size",
                   "64MiB",
                   "--fio",
                   fio,
                   "--case",
                   "peer/read/random/2MiB/fio-libaio",
                   "--milliseconds",
                   "20"});
  const int exit_code = command.Wait();
  if (command.errors().find("refused") != std::string::npos) GTEST_SKIP() << command.errors();
  if (LacksHugePages(command)) GTEST_SKIP() << command.errors();
  EXPECT_EQ(exit_code, 3) << command.errors();
  EXPECT_THAT(disk.Names(), IsEmpty());
}

TEST(BenchCommandTest, AnInterruptEndsFioAndLeavesNothing) {
  const TemporaryDirectory disk;
  const TemporaryDirectory programs;
  const std::string started = programs / "started";
  ASSERT_EQ(mkfifo(started.c_str(), 0600), 0);
  const io::FileDescriptor fifo(open(started.c_str(), O_RDWR | O_CLOEXEC));
  const std::string fio =
      bench::WriteFakeFio(programs, "echo yes > '" + started + "'\nexec sleep 1000\n");
  Command command({"bench",
                   "store",
                   "--dir",
                   disk.path(),
                   "--size",
                   "64MiB",
                   "--fio",
                   fio,
                   "--case",
                   "peer/read/random/2MiB/fio-libaio",
                   "--milliseconds",
                   "20"});
  if (!BecomesReadable(fifo)) {
    command.Signal(SIGINT);
    command.Wait();
    if (LacksHugePages(command)) GTEST_SKIP() << command.errors();
    FAIL() << "fio did not start: " << command.errors();
  }
  command.Signal(SIGINT);
  EXPECT_EQ(command.Wait(), 130);
  EXPECT_THAT(disk.Names(), IsEmpty());
}

TEST(BenchCommandTest, OptimizerKernelsAreMeasured) {
  Command command({"bench",
                   "optim",
                   "--json",
                   "--rounds",
                   "1",
                   "--mebiparameters",
                   "1",
                   "--case",
                   "adamw/*/best/all"});
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const std::vector<Json> rows = Lines(command.output());
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows.front()["bench"], "optim");
  EXPECT_EQ(rows.front()["case"], "adamw/fp32/fp32/best/all");
  EXPECT_EQ(rows.front()["target"], 0.95);
  EXPECT_GT(rows.front()["ratio"], 0.0);
  EXPECT_GT(rows.front()["ns_per_parameter"], 0.0);
  EXPECT_FALSE(rows.front().contains("file_system"));
}

TEST(BenchCommandTest, StepsAreMeasured) {
  const TemporaryDirectory disk;
  const TemporaryDirectory programs;
  const std::string fio = bench::WriteFakeFio(programs, bench::kFakeReport);
  Command command({"bench",
                   "step",
                   "--dir",
                   disk.path(),
                   "--json",
                   "--rounds",
                   "1",
                   "--mebiparameters",
                   "16",
                   "--size",
                   "64MiB",
                   "--fio",
                   fio,
                   "--case",
                   "adamw/fp32/fp32/32MiB"});
  const int exit_code = command.Wait();
  if (command.errors().find("refused") != std::string::npos) GTEST_SKIP() << command.errors();
  ASSERT_EQ(exit_code, 0) << command.errors();
  EXPECT_THAT(disk.Names(), IsEmpty());
  const std::vector<Json> rows = Lines(command.output());
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front()["bench"], "step");
  EXPECT_EQ(rows.front()["case"], "adamw/fp32/fp32/32MiB");
  EXPECT_NEAR(rows.front()["target"], 1 / 1.10, 1e-9);
  EXPECT_GT(rows.front()["ratio"], 0.0);
  EXPECT_GT(rows.front()["read_bytes"], 0.0);
  EXPECT_EQ(rows.front()["parameters"], 16 << 20);
}

TEST(BenchCommandTest, ResultsThatNobodyTakesEndTheRun) {
  const TemporaryDirectory disk;
  const TemporaryDirectory programs;
  const std::string fio = bench::WriteFakeFio(programs, bench::kFakeReport);
  Command command({"bench",
                   "store",
                   "--dir",
                   disk.path(),
                   "--size",
                   "64MiB",
                   "--milliseconds",
                   "20",
                   "--rounds",
                   "1",
                   "--fio",
                   fio,
                   "--case",
                   "read/random/2MiB/threads"});
  command.CloseOutput();
  EXPECT_EQ(command.Wait(), 3) << "a signal would leave reserved huge pages";
  EXPECT_THAT(command.errors(), HasSubstr("results are lost"));
}

TEST(BenchCommandTest, RowsOfOptimizerKernelsThatNobodyTakesEndTheRun) {
  Command command({"bench", "optim", "--json", "--rounds", "1", "--mebiparameters", "1"});
  command.CloseOutput();
  EXPECT_EQ(command.Wait(), 3) << command.errors();
  EXPECT_THAT(command.errors(), HasSubstr("results are lost"));
}

TEST(BenchCommandTest, UserErrorsNameTheFix) {
  const auto errors = [](const std::vector<std::string>& words) {
    Command command(words);
    EXPECT_EQ(command.Wait(), 2);
    EXPECT_EQ(command.output(), "");
    return command.errors();
  };
  EXPECT_THAT(errors({"bench", "stroe"}), HasSubstr("did you mean \"store\"?"));
  EXPECT_THAT(errors({"bench", "nothing-like-it"}), HasSubstr("is no sub-command of sluice bench"));
  EXPECT_THAT(errors({"bench"}), HasSubstr("Usage"));
  EXPECT_THAT(errors({"bench", "store"}), HasSubstr("--dir DIR is required"));
  EXPECT_THAT(errors({"bench", "store", "--dri", "x"}), HasSubstr("did you mean \"--dir\"?"));
  EXPECT_THAT(errors({"bench", "store", "--dir", "x", "--rounds", "none"}),
              HasSubstr("--rounds: \"none\" is not a whole number from 1 to 1000000"));
  EXPECT_THAT(errors({"bench", "store", "--dir", "x", "--size", "big"}),
              HasSubstr("--size: \"big\" is not a size"));
  EXPECT_THAT(errors({"bench", "optim", "--rounds", "0"}), HasSubstr("--rounds"));
  EXPECT_THAT(errors({"bench", "optim", "--case", "adamx"}), HasSubstr("cases have names like"));
  EXPECT_THAT(
      errors({"bench", "optim", "--mebiparameters", "1000000"}),
      AllOf(HasSubstr("for tensors of 1048576000000 parameters), and"), HasSubstr("; take fewer")));
  EXPECT_THAT(errors({"bench", "device", "--case", "inn/*"}),
              AllOf(HasSubstr("matches no case"), HasSubstr("cases are in/2MiB/emulated, out/")));
  EXPECT_THAT(errors({"bench", "device", "--dir", "x", "--case", "page-in"}),
              HasSubstr("weights/16MiB/emulated/nvme"));
  EXPECT_THAT(errors({"bench", "step"}), HasSubstr("--dir DIR is required"));
  EXPECT_THAT(errors({"bench", "step", "--dir", "x", "--mebiparameters", "0"}),
              HasSubstr("--mebiparameters"));
  const TemporaryDirectory disk;
  EXPECT_THAT(errors({"bench", "step", "--dir", disk.path(), "--policy", "lur"}),
              HasSubstr("--policy"));
  EXPECT_THAT(errors({"bench", "step", "--dir", disk.path(), "--mebiparameters", "900000"}),
              HasSubstr("make room"));
  EXPECT_THAT(errors({"bench", "store", "--dir", disk.path(), "--fio", "no-such-fio"}),
              HasSubstr("package fio"));
  for (const char* bench : {"store", "optim", "device", "step"}) {
    EXPECT_THAT(errors({"bench", bench, "--case", ""}),
                HasSubstr("--case names no row; leave it out"));
  }
  EXPECT_THAT(errors({"bench", "store", "--dir", disk.path(), "--case", "seqq"}),
              HasSubstr("matches no case; cases have names like read/seq/1MiB/io_uring"));
}

TEST(BenchCommandTest, HelpListsTheFlags) {
  Command list({"bench", "--help"});
  EXPECT_EQ(list.Wait(), 0);
  EXPECT_THAT(list.output(), HasSubstr("store"));
  for (const char* bench : {"store", "optim", "device", "step"}) {
    for (const char* help : {"--help", "-h"}) {
      Command command({"bench", bench, help});
      EXPECT_EQ(command.Wait(), 0) << bench << " " << help;
      EXPECT_THAT(command.output(), HasSubstr(std::string("Usage: sluice bench ") + bench));
      EXPECT_THAT(command.output(), HasSubstr("--rounds"));
    }
  }
}

}  // namespace
}  // namespace sluice::tools
