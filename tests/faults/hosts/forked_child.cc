#include "tests/faults/hosts/forked_child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "tests/support/store/page_buffer.h"

namespace sluice::faults {
namespace {

// Exit codes of the child.
constexpr int kRefused = 0;
constexpr int kNotAnswered = 1;
constexpr int kOtherwise = 2;

int CodeOf(const std::optional<absl::StatusCode>& answer) {
  if (!answer.has_value()) return kNotAnswered;
  return *answer == absl::StatusCode::kFailedPrecondition ? kRefused : kOtherwise;
}

int CallStore(io::PageStore& store, std::uint64_t page_bytes) {
  testing::PageBuffer page(page_bytes);
  // Shared: an answer that comes too late still has a place to go to.
  const auto answer = std::make_shared<std::optional<absl::StatusCode>>();
  const auto done = [answer](const absl::Status& status) { *answer = status.code(); };
  store.Read(0, {1, 0, 1}, page.span(), done);
  const int read = CodeOf(std::exchange(*answer, std::nullopt));
  if (read != kRefused) return read;
  store.Write(0, {1, 0, 1}, page.span(), done);
  return CodeOf(*answer);
}

std::string Describe(int wait_status) {
  if (!WIFEXITED(wait_status)) return "died, wait status " + std::to_string(wait_status);
  switch (WEXITSTATUS(wait_status)) {
    case kRefused:
      return {};
    case kNotAnswered:
      return "the store does not answer within the call";
    default:
      return "the store answers otherwise than FailedPrecondition";
  }
}

}  // namespace

std::string CallStoreInChild(io::PageStore& store, std::uint64_t page_bytes) {
  // Buffered output is flushed first. Otherwise some runtimes write it at the child's exit, too.
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) return "fork failed";
  if (child == 0) _exit(CallStore(store, page_bytes));
  int status = 0;
  if (waitpid(child, &status, 0) != child) return "cannot be waited for";
  return Describe(status);
}

}  // namespace sluice::faults
