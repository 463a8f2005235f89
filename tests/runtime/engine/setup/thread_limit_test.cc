// Threads that the system refuses, at every stage of Runtime::Create and after it. The call gives
// an error, and the threads that were started end.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <string>

#include "runtime/engine/api/runtime_state.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/threads_left.h"

namespace sluice {
namespace {

using testing::RuntimeFixture;

enum class Stage { kNothing, kStore, kDevice };

void RefuseThreads() {
  const std::string failed =
      testing::RefuseSystemCall(SYS_clone3, EAGAIN, testing::Refuse::kEveryCall);
  EXPECT_EQ(failed, "");
}

/// Message of Create if threads are refused from `stage` on, and the threads left behind.
std::string CreateWithoutThreadsFrom(Stage stage) {
  const auto before = testing::ThreadIds();  // a sanitizer may have one of its own
  RuntimeFixture runtime;
  if (stage == Stage::kNothing) RefuseThreads();
  runtime.hooks.wrap_store = [stage](auto store) {
    if (stage == Stage::kStore) RefuseThreads();
    return store;
  };
  runtime.hooks.wrap_device = [stage](auto device) {
    if (stage == Stage::kDevice) RefuseThreads();
    return device;
  };
  const auto created = internal::RuntimeAccess::Create(runtime.options, runtime.hooks);
  return created.status().ToString() +
         "; threads left: " + std::to_string(testing::ThreadsLeft(before));
}

class ThreadLimitTest : public ::testing::TestWithParam<Stage> {};

TEST_P(ThreadLimitTest, IsAStatusOfCreate) {
  EXPECT_EQ(testing::RunInChild([] { return CreateWithoutThreadsFrom(GetParam()); }),
            "RESOURCE_EXHAUSTED: a thread cannot be started: EAGAIN; see ulimit -u, pids.max of "
            "the control group and kernel.threads-max; threads left: 0");
}

INSTANTIATE_TEST_SUITE_P(Stages,
                         ThreadLimitTest,
                         ::testing::Values(Stage::kNothing, Stage::kStore, Stage::kDevice),
                         [](const auto& test) {
                           return test.param == Stage::kNothing ? "Workers"
                                  : test.param == Stage::kStore ? "FirstTouch"
                                                                : "Mapper";
                         });

TEST(StreamThreadLimitTest, AStreamWithoutAThreadIsAStatus) {
  for (const bool with_device : {true, false}) {
    const std::string text = testing::RunInChild([with_device] {
      RuntimeFixture runtime;
      if (!with_device) runtime.options.hbm_bytes = Bytes();
      runtime.Start();
      RefuseThreads();
      return std::string(absl::StatusCodeToString(runtime->CreateStream().status().code()));
    });
    EXPECT_EQ(text, "RESOURCE_EXHAUSTED");
  }
}

}  // namespace
}  // namespace sluice
