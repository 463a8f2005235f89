// The last words of a process that touches a tensor outside a lease.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using testing::RuntimeFixture;

/// A child's end by a signal, with a core dump or without.
auto DiedOf(int signal) {
  return ::testing::AnyOf(HasSubstr("wait status " + std::to_string(signal) + ")"),
                          HasSubstr("wait status " + std::to_string(signal | 0x80) + ")"));
}

class StrayTouchesTest : public ::testing::Test {
 protected:
  void SetUp() override { SLUICE_SKIP_FORK_UNDER_SANITIZERS(); }

  /// Runs `body` in a child. Sets `said_` to its standard error. Returns how the child ended.
  std::string Run(const std::function<std::string()>& body) {
    const std::string path = directory_.path() + "/stderr";
    const std::string end = testing::RunInChild([&]() -> std::string {
      const int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
      if (fd < 0 || dup2(fd, STDERR_FILENO) < 0) return "no standard error";
      // The directory, and all that the child leaves in it, goes at the end.
      setenv("TMPDIR", directory_.path().c_str(), 1);
      return body();
    });
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    said_ = text.str();
    return end;
  }

  static TensorSpec Spec(OffLease off_lease) {
    TensorSpec spec = testing::ByteTensor("weights", 3 * kPage);
    spec.off_lease = off_lease;
    return spec;
  }

  /// Makes a Runtime with two tensors and touches byte 5000 of the second one.
  static std::string Touch(OffLease off_lease, bool write) {
    if (!NameStrayTouches().ok()) return "not installed";
    RuntimeFixture runtime;
    runtime.Start();
    TensorSpec first = Spec(off_lease);
    first.name = "first";
    const std::vector<TensorSpec> specs = {first, Spec(off_lease)};
    const auto tensors = runtime->CreateTensors(specs);
    if (!tensors.ok()) return "no tensors";
    const auto view = runtime->AddressOf(tensors->at(1));
    if (!view.ok()) return "no address";
    auto* const at = const_cast<volatile std::byte*>(view->data()) + 5000;
    if (write) {
      *at = std::byte{1};
    } else if (*at == std::byte{1}) {
      return "one";
    }
    return "lives";
  }

  testing::TempDirectory directory_;
  std::string said_;
};

TEST_F(StrayTouchesTest, AWriteIsNamed) {
  EXPECT_THAT(Run([] { return Touch(OffLease::kReadable, true); }), DiedOf(SIGSEGV));
#if defined(__x86_64__)
  EXPECT_EQ(said_,
            "sluice: tensor 'weights' is written at byte 5000 outside a lease that allows it "
            "(SIGSEGV)\n");
#else
  EXPECT_EQ(said_,
            "sluice: tensor 'weights' is touched at byte 5000 outside a lease that allows it "
            "(SIGSEGV)\n");
#endif
}

TEST_F(StrayTouchesTest, AReadOfWhatIsReadableIsNone) {
  EXPECT_EQ(Run([] { return Touch(OffLease::kReadable, false); }), "lives");
  EXPECT_EQ(said_, "");
}

TEST_F(StrayTouchesTest, AReadOfAnotherTensorIsNamed) {
  EXPECT_THAT(Run([] { return Touch(OffLease::kNone, false); }), DiedOf(SIGSEGV));
  EXPECT_THAT(said_, HasSubstr("sluice: tensor 'weights' is "));
  EXPECT_THAT(said_, HasSubstr(" at byte 5000 outside a lease that allows it (SIGSEGV)\n"));
}

TEST_F(StrayTouchesTest, AFileThatHasShrunkIsNamed) {
  const std::string path = directory_.path() + "/home";
  std::ofstream(path) << std::string(3 * kPage, 'x');
  EXPECT_THAT(Run([&]() -> std::string {
                if (!NameStrayTouches().ok()) return "not installed";
                RuntimeFixture runtime;
                runtime.Start();
                TensorSpec spec = Spec(OffLease::kReadable);
                spec.file = FileHome{path, 0};
                const auto tensor = runtime->CreateTensor(spec);
                if (!tensor.ok() || truncate(path.c_str(), 0) != 0) return "not made";
                const volatile std::byte* const at = runtime->AddressOf(*tensor)->data();
                return at[7] == std::byte{'x'} ? "lives" : "wrong";
              }),
              DiedOf(SIGBUS));
  // No lease would help.
  EXPECT_EQ(
      said_,
      "sluice: tensor 'weights' has no bytes to show at byte 7: its file has shrunk or cannot "
      "be read, or the system is out of memory (SIGBUS)\n");
}

extern "C" void SayAndExit(int) {
  static constexpr char kText[] = "earlier handler\n";
  if (write(STDERR_FILENO, kText, sizeof(kText) - 1) < 0) _exit(4);
  _exit(3);
}

TEST_F(StrayTouchesTest, TheEarlierHandlerRunsAfterwards) {
  EXPECT_THAT(Run([] {
                signal(SIGSEGV, &SayAndExit);
                return Touch(OffLease::kReadable, true);
              }),
              HasSubstr("wait status " + std::to_string(3 << 8) + ")"));
  EXPECT_THAT(said_, HasSubstr("'weights'"));
  EXPECT_THAT(said_, ::testing::EndsWith("earlier handler\n"));
}

TEST_F(StrayTouchesTest, OtherFaultsGoToTheEarlierHandler) {
  EXPECT_THAT(Run([]() -> std::string {
                signal(SIGSEGV, &SayAndExit);
                if (!NameStrayTouches().ok() || !NameStrayTouches().ok()) return "not installed";
                raise(SIGSEGV);
                return "lives";
              }),
              HasSubstr("wait status " + std::to_string(3 << 8) + ")"));
  EXPECT_EQ(said_, "earlier handler\n");
}

TEST_F(StrayTouchesTest, OtherFaultsEndTheProcess) {
  for (const bool sent : {true, false}) {
    EXPECT_THAT(Run([sent]() -> std::string {
                  if (!NameStrayTouches().ok()) return "not installed";
                  volatile int* const nowhere = reinterpret_cast<volatile int*>(8);
                  if (sent) {
                    raise(SIGSEGV);
                  } else {
                    *nowhere = 1;
                  }
                  return "lives";
                }),
                DiedOf(SIGSEGV));
    EXPECT_EQ(said_, "");
  }
}

TEST_F(StrayTouchesTest, AnIgnoredSignalThatIsSentStaysIgnored) {
  EXPECT_EQ(Run([]() -> std::string {
              signal(SIGBUS, SIG_IGN);
              if (!NameStrayTouches().ok()) return "not installed";
              raise(SIGBUS);
              return "lives";
            }),
            "lives");
}

}  // namespace
}  // namespace sluice
