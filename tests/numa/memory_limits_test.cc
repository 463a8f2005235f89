#include "numa/memory_limits.h"

#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace sluice::numa {
namespace {

constexpr std::uint64_t kLimitMiB = 1 << 20;

/// A root directory with a machine of 1 GiB, 512 MiB of it available, in it.
class MemoryLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/sluice-limits-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    Write("proc/meminfo", "MemTotal:        1048576 kB\nMemFree: 1 kB\nMemAvailable:  524288 kB\n");
    Write("proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max locked memory         8388608              9000000              bytes     \n");
    Write("proc/self/status", "Name:\ttest\nCapEff:\t0000000000000000\n");
    Write("proc/sys/vm/max_map_count", "65530\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  MemoryLimits Read() {
    auto limits = ReadMemoryLimits(root_);
    EXPECT_TRUE(limits.ok()) << limits.status();
    return limits.value_or(MemoryLimits{});
  }

  std::string root_;
};

TEST_F(MemoryLimitsTest, TheMemoryOfTheSystemIsAvailableWithoutAGroup) {
  const MemoryLimits limits = Read();
  EXPECT_EQ(limits.total_bytes, 1024 * kLimitMiB);
  EXPECT_EQ(limits.system_available_bytes, 512 * kLimitMiB);
  EXPECT_EQ(limits.available_bytes, 512 * kLimitMiB);
  EXPECT_FALSE(limits.cgroup.has_value());
}

TEST_F(MemoryLimitsTest, ReadsLimitsOfTheProcess) {
  EXPECT_EQ(Read().memlock_bytes, 8 * kLimitMiB);
  EXPECT_FALSE(Read().memlock_exempt);
  EXPECT_EQ(Read().max_map_count, 65530u);
  Write("proc/self/limits", "Max locked memory         unlimited            unlimited    bytes\n");
  Write("proc/self/status", "CapEff:\t0000000000004000\n");
  Write("proc/sys/vm/max_map_count", "262144\n");
  EXPECT_EQ(Read().memlock_bytes, std::nullopt);
  EXPECT_TRUE(Read().memlock_exempt);
  EXPECT_EQ(Read().max_map_count, 262144u);
}

TEST_F(MemoryLimitsTest, Version2TakesTheTightestOfTheGroupAndThoseAbove) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  Write("sys/fs/cgroup/a/b/memory.current", "1\n");
  Write("sys/fs/cgroup/a/memory.max", std::to_string(300 * kLimitMiB));
  Write("sys/fs/cgroup/a/memory.current", std::to_string(100 * kLimitMiB));
  const MemoryLimits limits = Read();
  ASSERT_TRUE(limits.cgroup.has_value());
  EXPECT_EQ(limits.cgroup->limit_bytes, 300 * kLimitMiB);
  EXPECT_EQ(limits.cgroup->path, root_ + "/sys/fs/cgroup/a");
  EXPECT_EQ(limits.available_bytes, 200 * kLimitMiB);
  EXPECT_EQ(limits.available_source, root_ + "/sys/fs/cgroup/a/memory.max");
}

TEST_F(MemoryLimitsTest, Version2HighLimitsAsMaxDoes) {
  Write("proc/self/cgroup", "0::/a\n");
  Write("sys/fs/cgroup/a/memory.max", std::to_string(300 * kLimitMiB));
  Write("sys/fs/cgroup/a/memory.high", std::to_string(250 * kLimitMiB));
  Write("sys/fs/cgroup/a/memory.current", std::to_string(50 * kLimitMiB));
  EXPECT_EQ(Read().available_bytes, 200 * kLimitMiB);
  EXPECT_EQ(Read().available_source, root_ + "/sys/fs/cgroup/a/memory.high");
  Write("sys/fs/cgroup/a/memory.high", "max\n");
  EXPECT_EQ(Read().available_bytes, 250 * kLimitMiB);
}

TEST_F(MemoryLimitsTest, CacheThatCanBeGivenBackIsNotUse) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", std::to_string(300 * kLimitMiB));
  Write("sys/fs/cgroup/memory.current", std::to_string(250 * kLimitMiB));
  Write("sys/fs/cgroup/memory.stat",
        "anon 1\ninactive_file " + std::to_string(100 * kLimitMiB) + "\nactive_file " +
            std::to_string(40 * kLimitMiB) + "\nslab_reclaimable " +
            std::to_string(10 * kLimitMiB) + "\n");
  EXPECT_EQ(Read().available_bytes, 200 * kLimitMiB);
}

TEST_F(MemoryLimitsTest, MemoryIsShortBelowAQuarter) {
  EXPECT_FALSE(Read().is_short());
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", std::to_string(400 * kLimitMiB));
  Write("sys/fs/cgroup/memory.current", std::to_string(300 * kLimitMiB));
  EXPECT_FALSE(Read().is_short());
  Write("sys/fs/cgroup/memory.current", std::to_string(301 * kLimitMiB));
  EXPECT_TRUE(Read().is_short());
  MemoryLimits limits = {.total_bytes = 8, .system_available_bytes = 2};
  EXPECT_FALSE(limits.is_short());
  limits.system_available_bytes = 1;
  EXPECT_TRUE(limits.is_short());
}

TEST_F(MemoryLimitsTest, AGroupThatIsFullLeavesNothing) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", std::to_string(10 * kLimitMiB));
  Write("sys/fs/cgroup/memory.current", std::to_string(11 * kLimitMiB));
  EXPECT_EQ(Read().available_bytes, 0u);
}

TEST_F(MemoryLimitsTest, AGroupAboveWhatTheMachineHasDoesNotCount) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", std::to_string(4096 * kLimitMiB));
  EXPECT_EQ(Read().available_bytes, 512 * kLimitMiB);
}

TEST_F(MemoryLimitsTest, Version1InAContainerIsReadFromTheMountPoint) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n1:name=systemd:/x\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(64 * kLimitMiB));
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(32 * kLimitMiB));
  Write("sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file " + std::to_string(5 * kLimitMiB) + "\ntotal_active_file " +
            std::to_string(3 * kLimitMiB));
  EXPECT_EQ(Read().available_bytes, 40 * kLimitMiB);
}

TEST_F(MemoryLimitsTest, Version1HasANumberForUnlimited) {
  Write("proc/self/cgroup", "4:memory:/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(Read().cgroup.has_value());
}

TEST_F(MemoryLimitsTest, Version1TakesTheTightestOfTheGroupAndThoseAbove) {
  Write("proc/self/cgroup", "4:memory:/a/b\n");
  Write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", std::to_string(400 * kLimitMiB));
  Write("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", std::to_string(10 * kLimitMiB));
  Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", std::to_string(300 * kLimitMiB));
  Write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", std::to_string(200 * kLimitMiB));
  EXPECT_EQ(Read().available_bytes, 100 * kLimitMiB);
  EXPECT_EQ(Read().available_source, root_ + "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
  // A group without use_hierarchy does not limit the groups below it.
  Write("sys/fs/cgroup/memory/a/memory.use_hierarchy", "0\n");
  EXPECT_EQ(Read().available_bytes, 390 * kLimitMiB);
}

TEST_F(MemoryLimitsTest, HierarchiesAreReadWhereTheyAreMounted) {
  Write("proc/self/cgroup", "4:memory:/docker/1/a\n0::/\n");
  Write("proc/self/mountinfo",
        "30 1 0:2 / /proc rw - proc proc rw\n"
        "31 1 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
        "32 31 0:29 /docker/1 /cg/cpu rw - cgroup cgroup rw,cpu\n"
        "35 31 0:32 /docker/1 /cg/me\\040m rw,relatime shared:9 - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /cg/unified rw,relatime - cgroup2 cgroup2 rw\n");
  Write("cg/cpu/a/memory.limit_in_bytes", "1\n");
  Write("cg/me m/memory.limit_in_bytes", std::to_string(300 * kLimitMiB));
  Write("cg/me m/a/memory.limit_in_bytes", std::to_string(100 * kLimitMiB));
  Write("cg/me m/a/memory.usage_in_bytes", std::to_string(40 * kLimitMiB));
  EXPECT_EQ(Read().available_bytes, 60 * kLimitMiB);
  EXPECT_EQ(Read().available_source, root_ + "/cg/me m/a/memory.limit_in_bytes");
}

TEST_F(MemoryLimitsTest, TheTighterLimitOfBothVersionsCounts) {
  Write("proc/self/cgroup", "4:memory:/a\n0::/b\n");
  Write("proc/self/mountinfo",
        "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n");
  Write("cg/memory/a/memory.limit_in_bytes", std::to_string(100 * kLimitMiB));
  Write("cg/unified/b/memory.max", std::to_string(80 * kLimitMiB));
  EXPECT_EQ(Read().available_bytes, 80 * kLimitMiB);
  Write("cg/unified/b/memory.max", "max\n");
  EXPECT_EQ(Read().available_bytes, 100 * kLimitMiB);
}

TEST_F(MemoryLimitsTest, AGroupWithoutAMemoryControllerLimitsNothing) {
  Write("proc/self/cgroup", "0::/a\n");
  Write("sys/fs/cgroup/a/cgroup.procs", "1\n");
  EXPECT_FALSE(Read().cgroup.has_value());
  EXPECT_EQ(Read().available_source, "MemAvailable of /proc/meminfo");
}

TEST_F(MemoryLimitsTest, LimitsOfTheProcessLeaveWhatItDoesNotHaveYet) {
  EXPECT_EQ(Read().address_bytes, std::nullopt);
  Write("proc/self/limits",
        "Max data size             104857600            unlimited            bytes\n"
        "Max address space         209715200            unlimited            bytes\n");
  Write("proc/self/status", "VmSize:\t  51200 kB\nVmData:\t   40960 kB\n");
  EXPECT_EQ(Read().address_bytes, 150 * kLimitMiB);
  EXPECT_EQ(Read().data_bytes, 60 * kLimitMiB);
  EXPECT_EQ(Read().available_bytes, 150 * kLimitMiB);
  EXPECT_EQ(Read().available_source, "RLIMIT_AS (ulimit -v)");
}

TEST_F(MemoryLimitsTest, WithoutMeminfoThereIsAnError) {
  std::filesystem::remove(std::filesystem::path(root_) / "proc/meminfo");
  const auto limits = ReadMemoryLimits(root_);
  EXPECT_EQ(limits.status().code(), absl::StatusCode::kNotFound);
}

TEST(MemoryLimitsOfThisMachineTest, AgreeWithTheSystem) {
  const auto limits = ReadMemoryLimits();
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_GT(limits->available_bytes, 0u);
  EXPECT_LE(limits->available_bytes, limits->total_bytes);
  rlimit memlock;
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &memlock), 0);
  if (memlock.rlim_cur == RLIM_INFINITY) {
    EXPECT_EQ(limits->memlock_bytes, std::nullopt);
  } else {
    EXPECT_EQ(limits->memlock_bytes, memlock.rlim_cur);
  }
}

}  // namespace
}  // namespace sluice::numa
