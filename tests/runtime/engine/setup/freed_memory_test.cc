#include "sluice/freed_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "tests/support/child_process.h"

namespace sluice {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kPageBytes = 4096;

/// MiB after which the next return is due, once addresses of `available` bytes are left.
std::string NextMiBWith(std::uint64_t available) {
  return testing::RunInChild([&]() -> std::string {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{pages * kPageBytes + available, RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return "setrlimit failed";
    return std::to_string(ReturnFreedMemory().next_bytes / kMiB);
  });
}

TEST(FreedMemoryTest, TheNextReturnIsDueSoonerWhereLessIsLeft) {
  EXPECT_EQ(NextMiBWith(100 * kMiB), "12");
  EXPECT_EQ(NextMiBWith(16 * kMiB), "4") << "a return visits the whole heap";
  EXPECT_EQ(NextMiBWith(kMiB << 10), "64");
}

}  // namespace
}  // namespace sluice
