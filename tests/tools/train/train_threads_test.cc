// A limit on processes and threads (`ulimit -u`, RLIMIT_NPROC), for a user whom it concerns: a
// thread that cannot be started gives a message that names the limit, never a crash or a hang.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/train/train_command.h"

namespace sluice::tools {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr const char* kNobody = "65534";

class TrainThreadsTest : public TrainCommandTest {
 protected:
  /// Runs the command as nobody, with a limit of processes and threads, since root has none. The
  /// capability lets nobody into the folders above the test's own. A sanitizer's search for leaks
  /// would need a thread more.
  Command::Surroundings Limited(int threads) const {
    const std::string limit = "--nproc=" + std::to_string(threads);
    return {.run_by = {"/usr/bin/env",
                       "ASAN_OPTIONS=detect_leaks=0",
                       "/usr/bin/setpriv",
                       std::string("--reuid=") + kNobody,
                       std::string("--regid=") + kNobody,
                       "--clear-groups",
                       "--inh-caps=-all,+dac_override",
                       "--ambient-caps=-all,+dac_override",
                       "--bounding-set=-all,+dac_override",
                       "/usr/bin/prlimit",
                       limit}};
  }
  /// Lets nobody read and write the files of the test.
  void GiveAway() const {
    for (const std::string& path : {files_.path(), spill_.path(), text_path_}) {
      ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0) << path;
    }
  }
};

TEST_F(TrainThreadsTest, AThreadThatCannotBeStartedIsAMessageThatNamesTheLimit) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become a user without threads";
  ASSERT_NO_FATAL_FAILURE(GiveAway());
  std::set<int> codes;
  int succeeded_with = 0;
  for (int threads = 1; succeeded_with == 0 && threads < 200; threads += threads < 24 ? 1 : 8) {
    SCOPED_TRACE(threads);
    Command command(Words({"--set", "train.steps=2", "--set", "train.compute_threads=2"}),
                    Limited(threads));
    const int code = command.Wait();
    codes.insert(code);
    EXPECT_THAT(code, AnyOf(Eq(0), Eq(2), Eq(3))) << command.errors();
    if (code == 0) {
      succeeded_with = threads;
    } else {
      EXPECT_THAT(command.errors(), HasSubstr("ulimit -u")) << code;
    }
  }
  EXPECT_GT(succeeded_with, 4) << "the limit must be felt";
}

}  // namespace
}  // namespace sluice::tools
