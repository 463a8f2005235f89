#include "sluice/config.h"

#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sluice/options.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

Config Parsed(std::string_view toml) {
  absl::StatusOr<Config> config = Config::Parse(toml, "test.toml");
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(ConfigTest, ReadsEveryType) {
  Config config = Parsed(
      "flag = true\ncount = 7\nratio = 1\nname = 'x'\nsize = '1.5 KiB'\nlist = [1, 2]\n"
      "files = ['a', 'b']\n[a.b]\nc = 2.5\n");
  bool flag = false;
  std::int64_t count = 0;
  double ratio = 0, nested = 0;
  std::string name;
  Bytes size;
  std::vector<std::int64_t> list;
  std::vector<std::string> files;
  ASSERT_TRUE(config.Read("flag", &flag).ok());
  ASSERT_TRUE(config.Read("count", &count).ok());
  ASSERT_TRUE(config.Read("ratio", &ratio).ok());
  ASSERT_TRUE(config.Read("name", &name).ok());
  ASSERT_TRUE(config.Read("size", &size).ok());
  ASSERT_TRUE(config.Read("list", &list).ok());
  ASSERT_TRUE(config.Read("files", &files).ok());
  ASSERT_TRUE(config.Read("a.b.c", &nested).ok());
  EXPECT_TRUE(flag);
  EXPECT_EQ(count, 7);
  EXPECT_EQ(ratio, 1.0);
  EXPECT_EQ(name, "x");
  EXPECT_EQ(size, Bytes(1536));
  EXPECT_THAT(list, ElementsAre(1, 2));
  EXPECT_THAT(files, ElementsAre("a", "b"));
  EXPECT_EQ(nested, 2.5);
  EXPECT_TRUE(config.Finish().ok()) << config.Finish();
}

TEST(ConfigTest, AbsentKeyKeepsTheDefault) {
  Config config = Parsed("");
  std::int64_t count = 42;
  EXPECT_TRUE(config.Read("count", &count).ok());
  EXPECT_EQ(count, 42);
  EXPECT_FALSE(config.Has("count"));
}

TEST(ConfigTest, MalformedTomlNamesLineAndColumn) {
  const absl::StatusOr<Config> config = Config::Parse("a = 1\nb = = 2\n", "bad.toml");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(config.status()), HasSubstr("bad.toml:2:5: "));
}

TEST(ConfigTest, ASizeWithoutQuotesIsToldToHaveThem) {
  for (const char* const text : {"a = 64MiB", "a = 1.5GiB", "a = 7k"}) {
    EXPECT_THAT(Message(Config::Parse(text, "t.toml").status()),
                EndsWith("; a size needs quotes: \"64MiB\""))
        << text;
  }
  EXPECT_THAT(Message(Config::Parse("a = =", "t.toml").status()), Not(HasSubstr("quotes")));
}

TEST(ConfigTest, AnImpossibleKeyIsAnErrorAndEndsNoProcess) {
  for (const std::string_view text : {"[:", "[[:", "a.: = 1", "a.", "[a.:", "{", "a = {:", "["}) {
    const absl::StatusOr<Config> config = Config::Parse(text, "bad.toml");
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(Message(config.status()), HasSubstr("bad.toml:1:")) << text;
  }
}

TEST(ConfigTest, MissingFileIsNotFoundAndDirectoryIsAnError) {
  EXPECT_EQ(Config::Load("/nonexistent/x.toml").status().code(), absl::StatusCode::kNotFound);
  for (const char* path : {"/", "/dev/zero"}) {
    EXPECT_THAT(Message(Config::Load(path).status()), HasSubstr("directory or device")) << path;
  }
}

TEST(ConfigTest, UnknownKeyNamesPlaceAndNearest) {
  Config config = Parsed("page_bytes = 4096\n[tiers.drm]\nbytes = 1\n");
  Bytes bytes;
  ASSERT_TRUE(config.Read("page_bytes", &bytes).ok());
  ASSERT_TRUE(config.Read("tiers.dram.bytes", &bytes).ok());
  const absl::Status status = config.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("test.toml:3:"));
  EXPECT_THAT(Message(status),
              HasSubstr("unknown key \"tiers.drm.bytes\"; did you mean \"tiers.dram.bytes\"?"));
}

TEST(ConfigTest, EmptyUnknownSectionIsAnErrorAndEmptyKnownOneIsNot) {
  Config config = Parsed("[tiers.dram]\n");
  Bytes bytes;
  ASSERT_TRUE(config.Read("tiers.dram.bytes", &bytes).ok());
  EXPECT_TRUE(config.Finish().ok());
  Config unknown = Parsed("[tires]\n");
  ASSERT_TRUE(unknown.Read("tiers.dram.bytes", &bytes).ok());
  EXPECT_THAT(Message(unknown.Finish()), HasSubstr("unknown key \"tires\""));
}

TEST(ConfigTest, WrongTypeNamesPlaceValueAndExpectation) {
  Config config = Parsed("count = 'seven'\nsize = -1\nlist = [1, 'x']\n");
  std::int64_t count = 3;
  const absl::Status status = config.Read("count", &count);
  EXPECT_THAT(Message(status),
              HasSubstr("test.toml:1:9: \"count\" is 'seven'; it must be a whole"));
  EXPECT_EQ(count, 3);
  Bytes size;
  EXPECT_FALSE(config.Read("size", &size).ok());
  std::vector<std::int64_t> list;
  EXPECT_FALSE(config.Read("list", &list).ok());
}

TEST(ConfigTest, SetReplacesAddsAndTakesBareWords) {
  Config config = Parsed("[tiers.dram]\nbytes = '1MiB'\n");
  ASSERT_TRUE(config.Set("tiers.dram.bytes=256MiB").ok());
  ASSERT_TRUE(config.Set("scheduler.policy=lru").ok());
  ASSERT_TRUE(config.Set("workers.cpus=[0, 1]").ok());
  Bytes bytes;
  std::string policy;
  std::vector<std::int64_t> cpus;
  ASSERT_TRUE(config.Read("tiers.dram.bytes", &bytes).ok());
  ASSERT_TRUE(config.Read("scheduler.policy", &policy).ok());
  ASSERT_TRUE(config.Read("workers.cpus", &cpus).ok());
  EXPECT_EQ(bytes, 256_MiB);
  EXPECT_EQ(policy, "lru");
  EXPECT_THAT(cpus, ElementsAre(0, 1));
  EXPECT_TRUE(config.Finish().ok());
}

TEST(ConfigTest, SetKeepsAValueOneString) {
  Config config = Parsed("");
  ASSERT_TRUE(config.Set("a=x\nb = 1").ok());
  ASSERT_TRUE(config.Set("empty=").ok());
  std::string a, empty = "default";
  ASSERT_TRUE(config.Read("a", &a).ok());
  ASSERT_TRUE(config.Read("empty", &empty).ok());
  EXPECT_EQ(a, "x\nb = 1");
  EXPECT_EQ(empty, "");
  EXPECT_TRUE(config.Finish().ok());
}

TEST(ConfigTest, BadAssignmentsAreErrors) {
  Config config = Parsed("count = 1\n[section]\nx = 1\n");
  EXPECT_THAT(Message(config.Set("no-equals")), HasSubstr("KEY=VALUE"));
  EXPECT_FALSE(config.Set("=1").ok());
  EXPECT_FALSE(config.Set("a..b=1").ok());
  EXPECT_FALSE(config.Set("section=1").ok());
  EXPECT_FALSE(config.Set("count.deep=1").ok());
}

TEST(ConfigTest, UnknownOverrideIsNamedAsSuch) {
  Config config = Parsed("");
  Bytes bytes;
  ASSERT_TRUE(config.Set("page_byte=4096").ok());
  ASSERT_TRUE(config.Read("page_bytes", &bytes).ok());
  EXPECT_THAT(Message(config.Finish()),
              HasSubstr("--set: unknown key \"page_byte\"; did you mean \"page_bytes\"?"));
}

absl::StatusOr<RuntimeOptions> OptionsOf(std::string_view toml) {
  Config config = Parsed(toml);
  absl::StatusOr<RuntimeOptions> options = ReadRuntimeOptions(config);
  EXPECT_TRUE(!options.ok() || config.Finish().ok()) << config.Finish();
  return options;
}

TEST(RuntimeOptionsTest, ReadsWhatIsRequiredAndWhatIsOff) {
  const absl::StatusOr<RuntimeOptions> options = OptionsOf(R"(
[memory]
huge_pages = "require"
numa_binding = "require"
even_split = "off"
off_lease = "require"
[io]
io_uring = "require"
direct = "off"
nocow = "require"
reserved_space = "require"
)");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->memory.huge_pages, Use::kRequire);
  EXPECT_EQ(options->memory.numa_binding, Use::kRequire);
  EXPECT_EQ(options->memory.even_split, Use::kOff);
  EXPECT_EQ(options->memory.off_lease, Use::kRequire);
  EXPECT_EQ(options->io.io_uring, Use::kRequire);
  EXPECT_EQ(options->io.direct, Use::kOff);
  EXPECT_EQ(options->io.nocow, Use::kRequire);
  EXPECT_EQ(options->io.reserved_space, Use::kRequire);
}

TEST(RuntimeOptionsTest, ReadsEveryKey) {
  const absl::StatusOr<RuntimeOptions> options = OptionsOf(R"(
page_bytes = "256KiB"
request_queue_capacity = 9
stall_seconds = 2.5
[device]
kind = "emulated"
[device.emulated]
in_bytes_per_second = "8GiB"
out_bytes_per_second = "4GiB"
latency_seconds = 1e-5
[tiers]
hbm.bytes = "64MiB"
dram.bytes = "128MiB"
nvme.bytes = "1GiB"
nvme.directory = "/some/where"
[io]
queue_depth = 16
bytes_in_flight = "3MiB"
[scheduler]
policy = "lru"
prefetch_ops = 3
schedules_max = 5
recorded_accesses_max = 700
[workers]
threads = 2
cpus = [1, 0]
)");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->page_bytes, 256_KiB);
  EXPECT_EQ(options->request_queue_capacity, 9u);
  EXPECT_EQ(options->stall_seconds, 2.5);
  EXPECT_EQ(options->device, DeviceKind::kEmulated);
  EXPECT_EQ(options->emulated.in_bytes_per_second, 8.0 * (1 << 30));
  EXPECT_EQ(options->emulated.out_bytes_per_second, 4.0 * (1 << 30));
  EXPECT_EQ(options->emulated.latency_seconds, 1e-5);
  EXPECT_EQ(options->hbm_bytes, 64_MiB);
  EXPECT_EQ(options->dram_bytes, 128_MiB);
  EXPECT_EQ(options->nvme_bytes, 1_GiB);
  EXPECT_EQ(options->io.directory, "/some/where");
  EXPECT_EQ(options->io.queue_depth, 16u);
  EXPECT_EQ(options->io.bytes_in_flight, 3_MiB);
  EXPECT_EQ(options->policy, "lru");
  EXPECT_EQ(options->prefetch_ops, 3u);
  EXPECT_EQ(options->schedules_max, 5u);
  EXPECT_EQ(options->recorded_accesses_max, 700u);
  EXPECT_EQ(options->worker_threads, 2);
  EXPECT_THAT(options->cpus, ElementsAre(1, 0));
}

TEST(RuntimeOptionsTest, EveryPolicyMayBeNamed) {
  for (const std::string name : {"planned",
                                 "min",
                                 "next-use-cost",
                                 "fifo",
                                 "lru",
                                 "clock",
                                 "lfu",
                                 "2q",
                                 "arc",
                                 "s3fifo",
                                 "sieve",
                                 "gdsf",
                                 "random"}) {
    const absl::StatusOr<RuntimeOptions> options =
        OptionsOf("[scheduler]\npolicy = '" + name + "'\n");
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->policy, name);
  }
}

TEST(RuntimeOptionsTest, DeviceMayBeAWordOfItsOwn) {
  const absl::StatusOr<RuntimeOptions> options = OptionsOf("device = 'emulated'\n");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->device, DeviceKind::kEmulated);
}

class RuntimeOptionsErrorTest
    : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RuntimeOptionsErrorTest, NamesKeyValueAndWhatIsAllowed) {
  const auto& [toml, message] = GetParam();
  Config config = Parsed(toml);
  const absl::StatusOr<RuntimeOptions> options = ReadRuntimeOptions(config);
  ASSERT_FALSE(options.ok()) << toml;
  EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(options.status()), HasSubstr(message));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    RuntimeOptionsErrorTest,
    ::testing::Values(
        std::pair("page_bytes = 5000", "\"page_bytes\" is 4.88 KiB; it must be a power of two"),
        std::pair("page_bytes = '128MiB'", "from 4 KiB to 64 MiB"),
        std::pair("[device]\nkind = 'tpu'",
                  "\"device.kind\" is \"tpu\"; allowed are emulated, cuda, auto"),
        std::pair("[device.emulated]\nlatency_seconds = -1",
                  "\"device.emulated.latency_seconds\" is -1; allowed are 0 to 1000000 seconds"),
        std::pair("[device.emulated]\nlatency_seconds = nan", "is nan; allowed are"),
        std::pair("[device.emulated]\nlatency_seconds = 1e300", "is 1e+300; allowed are"),
        std::pair("stall_seconds = -0.5", "\"stall_seconds\" is -0.5; allowed are 0 to"),
        std::pair("stall_seconds = nan", "\"stall_seconds\" is nan; allowed are"),
        std::pair("stall_seconds = 9223372036854775807", "\"stall_seconds\" is 9.22"),
        std::pair("stall_seconds = 1000001", "\"stall_seconds\" is 1000001; allowed are"),
        std::pair("[io]\nqueue_depth = 0", "\"io.queue_depth\" is 0; allowed are 1 to 1024"),
        std::pair("[io]\nqueue_depth = 1025", "\"io.queue_depth\" is 1025; allowed are 1 to 1024"),
        std::pair("[io]\ndirect = \"on\"", "allowed are \"auto\", \"require\", \"off\""),
        std::pair("[io]\nrequire_direct = true", "write io.direct = \"require\" for true"),
        std::pair("[io]\ndisable_io_uring = false", "write io.io_uring = \"off\" for true"),
        std::pair("[memory]\nrequire_even_split = true", "memory.even_split = \"require\""),
        std::pair("[scheduler]\npolicy = 'mni'",
                  "\"mni\"; allowed are min, next-use-cost, planned"),
        std::pair("[scheduler]\nprefetch_ops = -1", "\"scheduler.prefetch_ops\" is -1"),
        std::pair("[workers]\nthreads = 0", "\"workers.threads\" is 0"),
        std::pair("[workers]\ncpus = [-2]", "\"workers.cpus\" holds -2")));

}  // namespace
}  // namespace sluice
