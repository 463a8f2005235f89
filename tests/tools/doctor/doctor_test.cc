#include "tools/doctor/doctor.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/child_process.h"
#include "tests/support/cuda/fake_cuda.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/project_paths.h"
#include "tests/support/sanitizers.h"
#include "tests/support/synthetic_topology.h"
#include "tests/tools/temporary_directory.h"
#include "tools/doctor/facts.h"
#include "tools/doctor/probe_file.h"
#include "tools/doctor/spill_place.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Answer {
  int code = -1;
  std::string out;
  std::string err;
};

Answer Doctor(std::vector<std::string> args) {
  std::ostringstream out;
  std::ostringstream err;
  Answer answer;
  answer.code = RunDoctor(args, {.out = out, .err = err});
  answer.out = out.str();
  answer.err = err.str();
  return answer;
}

std::vector<Json> Lines(const std::string& text) {
  std::vector<Json> objects;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    objects.push_back(Json::parse(line, nullptr, false));
    EXPECT_TRUE(objects.back().is_object()) << line;
  }
  return objects;
}

std::vector<std::string> SectionNames(const std::vector<Json>& objects) {
  std::vector<std::string> names;
  for (const Json& object : objects) names.push_back(object.value("section", "?"));
  return names;
}

Json Parsed(const Section& section) { return Json::parse(section.ToJson()); }

TEST(DoctorTest, PrintsOneJsonObjectPerSection) {
  const TemporaryDirectory directory;
  const Answer answer = Doctor({"--json", "--directory", directory.path()});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(SectionNames(Lines(answer.out)),
              ElementsAre("cpu",
                          "compute",
                          "numa",
                          "memory",
                          "limits",
                          "huge_pages",
                          "io_uring",
                          "spill",
                          "gpu",
                          "choices"));
  EXPECT_THAT(directory.Names(), IsEmpty()) << "nothing is left behind";
}

TEST(DoctorTest, TextNamesEverySectionAndNoJson) {
  const TemporaryDirectory directory;
  const Answer answer = Doctor({"--directory", directory.path()});
  EXPECT_EQ(answer.code, 0) << answer.err;
  for (const char* name : {"cpu\n", "numa\n", "io_uring\n", "spill\n", "gpu\n", "choices\n"}) {
    EXPECT_THAT(answer.out, HasSubstr(name));
  }
  EXPECT_THAT(answer.out, HasSubstr(directory.path()));
  EXPECT_THAT(answer.out, ::testing::Not(HasSubstr("{")));
}

TEST(DoctorTest, MeasuresBothLinks) {
  const TemporaryDirectory directory;
  const Answer answer = Doctor({"--json", "--measure", "--directory", directory.path()});
  ASSERT_EQ(answer.code, 0) << answer.err;
  const std::vector<Json> objects = Lines(answer.out);
  ASSERT_EQ(objects.back().value("section", ""), "measure");
  for (const char* link : {"hbm-dram", "dram-nvme"}) {
    ASSERT_TRUE(objects.back().contains(link)) << objects.back();
    for (const char* rate :
         {"in_bytes_per_second", "out_bytes_per_second", "both_bytes_per_second"}) {
      EXPECT_GT(objects.back()[link].value(rate, 0.0), 0.0) << link << " " << rate;
    }
  }
  EXPECT_THAT(directory.Names(), IsEmpty()) << "nothing is left behind";
}

TEST(DoctorTest, AnUnknownFlagIsNamedWithTheNearest) {
  const Answer answer = Doctor({"--jason"});
  EXPECT_EQ(answer.code, 2);
  EXPECT_THAT(answer.err, HasSubstr("--jason"));
  EXPECT_THAT(answer.err, HasSubstr("--json"));
  EXPECT_EQ(answer.out, "");
  EXPECT_EQ(Doctor({"stray"}).code, 2);
}

TEST(DoctorTest, BudgetsAreProposedForTheJobOfAConfiguration) {
  const TemporaryDirectory directory;
  const std::string config = testing::ProjectFile("configs/train-gpt.toml");
  const Answer answer =
      Doctor({"--directory", directory.path(), "--config", config, "--set", "page_bytes=512KiB"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  // A line may go on in the next one.
  const std::string text = std::regex_replace(answer.out, std::regex("\\n    "), " ");
  EXPECT_THAT(text, HasSubstr("on pages of 512 KiB ("));
  EXPECT_THAT(text, HasSubstr("job_fits           yes"));
  for (const char* set :
       {"tiers.nvme.bytes=16MiB", "tiers.nvme.bytes=100TiB", "tiers.nvme.directory=/nonexistent"}) {
    EXPECT_THAT(Doctor({"--json", "--config", config, "--set", set}).out,
                HasSubstr("\"job_fits\":false"))
        << set;
  }
  EXPECT_THAT(Doctor({"--config", directory / "none.toml"}).err, HasSubstr("does not exist"));
  EXPECT_EQ(Doctor({"--config", directory / "none.toml"}).code, 2);
  EXPECT_EQ(Doctor({"--set", "page_bytes=512KiB"}).code, 2);
}

TEST(DoctorTest, HelpListsTheFlags) {
  for (const char* flag : {"-h", "--help"}) {
    const Answer answer = Doctor({flag});
    EXPECT_EQ(answer.code, 0);
    EXPECT_THAT(answer.out, HasSubstr("Usage: sluice doctor"));
    EXPECT_THAT(answer.out, HasSubstr("--measure"));
    EXPECT_EQ(answer.err, "");
  }
}

TEST(DoctorTest, AMissingDirectoryIsSaidAndDoesNotStopTheReport) {
  const TemporaryDirectory directory;
  const Answer answer = Doctor({"--json", "--directory", directory / "missing"});
  EXPECT_EQ(answer.code, 2);
  EXPECT_THAT(answer.err, HasSubstr("does not exist"));
  const std::vector<Json> objects = Lines(answer.out);
  ASSERT_EQ(objects.size(), 10u);
  EXPECT_EQ(objects[7].value("usable", true), false);
  EXPECT_THAT(objects[7]["warnings"].dump(), HasSubstr("does not exist"));
  EXPECT_EQ(objects[9]["file_mode"].value("chosen", ""), "none");

  const Answer measured = Doctor({"--measure", "--directory", directory / "missing"});
  EXPECT_EQ(measured.code, 2);
  EXPECT_THAT(measured.err, HasSubstr("does not exist"));
}

/// A failing disk is no fault of the user: the exit codes are those of `sluice train`.
TEST(DoctorTest, AFileThatFailsForItsDiskIsAnotherExitCode) {
  const TemporaryDirectory directory;
  const auto code_where_refused = [&](int error) {
    return testing::RunInChild([&]() -> std::string {
      const std::string failed =
          testing::RefuseSystemCall(SYS_fallocate, error, testing::Refuse::kEveryCall);
      if (!failed.empty()) return failed;
      return std::to_string(Doctor({"--directory", directory.path()}).code);
    });
  };
  EXPECT_EQ(code_where_refused(EIO), "3");
  EXPECT_EQ(code_where_refused(ENOSPC), "2");
  EXPECT_EQ(code_where_refused(EOPNOTSUPP), "0");
}

TEST(DoctorTest, TheSpillDirectoriesOfTheJobAreJudgedAsTrainWould) {
  const TemporaryDirectory directory;
  const std::string config = testing::ProjectFile("configs/train-gpt-tiny.toml");
  const std::string here = "tiers.nvme.directory=" + directory.path();
  const auto with = [&](const std::string& more) {
    return Doctor({"--config", config, "--set", here, "--set", more});
  };
  EXPECT_EQ(with("train.steps=1").code, 0);
  EXPECT_EQ(with("tiers.nvme.directory=/nonexistent/x").code, 2);
  EXPECT_EQ(with("tiers.nvme.more_directories=[\"/nonexistent/x\"]").code, 2);
  EXPECT_EQ(with("tiers.nvme.bytes=32TiB").code, 2);
  EXPECT_THAT(with("tiers.nvme.bytes=32TiB").err, HasSubstr("cannot reserve 32.06 TiB"));
  const auto keeping_none = [&](const std::string& more, const std::string& bytes = "32TiB") {
    return Doctor({"--config",
                   config,
                   "--set",
                   here,
                   "--set",
                   "tiers.nvme.keep_free=0",
                   "--set",
                   "tiers.nvme.bytes=" + bytes,
                   "--set",
                   more});
  };
  EXPECT_EQ(keeping_none("train.steps=1").code, 2);
  EXPECT_THAT(keeping_none("train.steps=1").err, HasSubstr("cannot reserve 32.06 TiB"));
  EXPECT_EQ(keeping_none("io.reserved_space=off").code, 0) << "sparse files may be larger";
  EXPECT_EQ(with("tiers.nvme.more_directories=[\"" + directory.path() + "\"]").code, 2);
  const TemporaryDirectory other;
  const auto on_two = [&](const std::string& bytes) {
    return keeping_none("tiers.nvme.more_directories=[\"" + other.path() + "\"]", bytes);
  };
  EXPECT_EQ(on_two("64MiB").code, 0);
  EXPECT_EQ(on_two("32TiB").code, 2);
  EXPECT_THAT(on_two("32TiB").err, HasSubstr("cannot reserve"));
  // Counts beyond 32 bits, and none, are refused in the words of a Runtime.
  EXPECT_EQ(keeping_none("train.steps=1", "16384TiB").code, 2);
  EXPECT_THAT(keeping_none("train.steps=1", "16384TiB").err, HasSubstr("tiers.nvme.bytes"));
  EXPECT_EQ(keeping_none("train.steps=1", "1KiB").code, 2);
  EXPECT_THAT(keeping_none("train.steps=1", "1KiB").err, HasSubstr("tiers.nvme.bytes"));
  {
    const testing::FileSizeLimit limit(7 << 20);
    EXPECT_EQ(keeping_none("train.steps=1", "8MiB").code, 2);
    EXPECT_THAT(keeping_none("train.steps=1", "8MiB").err, HasSubstr("ulimit -f"));
  }
  // Each part finds room, and both together do not.
  const std::uint64_t free = std::filesystem::space(directory.path()).available >> 20;
  EXPECT_EQ(on_two(std::to_string(free + 64) + "MiB").code, 2);
  // The directory that is named is looked at in place of the configuration's.
  EXPECT_EQ(Doctor({"--directory",
                    directory.path(),
                    "--config",
                    config,
                    "--set",
                    "tiers.nvme.directory=/nonexistent/x"})
                .code,
            0);
}

TEST(DoctorTest, ADirectoryWithoutFilesSaysWhatToDo) {
  if (geteuid() != 0) GTEST_SKIP() << "/proc is a directory of one's own for root only";
  const SpillFacts facts = ReadSpill("/proc");
  EXPECT_FALSE(facts.status.ok());
  EXPECT_THAT(std::string(facts.status.message()),
              ::testing::AllOf(HasSubstr("/proc"),
                               HasSubstr("no spill file can be made there"),
                               HasSubstr("tiers.nvme.directory")));
}

TEST(DoctorSpillTest, ADirectoryWhoseFilesAreCopiedSaysWhatToDo) {
  SpillFacts facts{.directory = "/d", .file_system = "btrfs"};
  EXPECT_EQ(Parsed(DescribeSpill(facts))["nocow"], true);
  EXPECT_THAT(Parsed(DescribeSpill(facts))["warnings"].dump(), ::testing::Not(HasSubstr("chattr")));
  facts.nocow_reason = "btrfs copies pages on write";
  EXPECT_EQ(Parsed(DescribeSpill(facts))["nocow"], false);
  EXPECT_THAT(DescribeSpill(facts).ToText(), HasSubstr("no: btrfs copies pages on write"));
  EXPECT_THAT(Parsed(DescribeSpill(facts))["warnings"].dump(), HasSubstr("chattr +C"));
}

TEST(DoctorSpillTest, ADirectoryWithoutReservationsSaysWhatToDo) {
  const TemporaryDirectory directory;
  const std::string text = testing::RunInChild([&]() -> std::string {
    const std::string failed =
        testing::RefuseSystemCall(SYS_fallocate, EOPNOTSUPP, testing::Refuse::kEveryCall);
    return failed.empty() ? DescribeSpill(ReadSpill(directory.path())).ToJson() : failed;
  });
  const Json spill = Json::parse(text);
  EXPECT_EQ(spill["usable"], true) << text;
  EXPECT_EQ(spill["reserved_space"], false);
  EXPECT_THAT(spill["warnings"].dump(), HasSubstr("writing its spill files in full"));
  const Json usual = Parsed(DescribeSpill({.directory = "/d"}));
  EXPECT_EQ(usual["reserved_space"], true);
  EXPECT_THAT(usual["warnings"].dump(), ::testing::Not(HasSubstr("in full")));
}

TEST(SpillPlaceTest, StandInsComeAndGoBesideTheDefaultDirectory) {
  const TemporaryDirectory parent;
  const std::string name = "sluice-" + std::to_string(geteuid());
  {
    const SpillPlace first("", parent.path());
    const SpillPlace second("", parent.path());
    EXPECT_EQ(first.used(), parent / name);
    EXPECT_EQ(parent.Names().size(), 2u);
    EXPECT_THAT(parent.Names(), ::testing::Not(::testing::Contains(name)));
    EXPECT_TRUE(ReadSpill(first.path()).status.ok());
    // A run begins meanwhile, and finds its directory again when doctor has gone.
    std::filesystem::create_directory(parent / name);
  }
  EXPECT_THAT(parent.Names(), ElementsAre(name));
}

TEST(SpillPlaceTest, AnExistingOrNamedDirectoryIsLookedAtItself) {
  const TemporaryDirectory parent;
  const std::string name = "sluice-" + std::to_string(geteuid());
  std::filesystem::create_directory(parent / name);
  {
    EXPECT_EQ(SpillPlace("", parent.path()).path(), parent / name);
    EXPECT_EQ(SpillPlace(parent / "missing", parent.path()).path(), parent / "missing");
  }
  EXPECT_THAT(parent.Names(), ElementsAre(name));
}

TEST(DoctorSectionTest, FieldsThatDoNotApplyAreAbsent) {
  Section section("name");
  EXPECT_EQ(section.ToJson(), R"({"section":"name"})");
  section.Add("count", 3, "three");
  section.Warn("take care");
  EXPECT_EQ(section.ToJson(), R"({"section":"name","count":3,"warnings":["take care"]})");
  EXPECT_EQ(section.ToText(), "name\n  count              three\n  ! take care\n");
}

TEST(DoctorSectionTest, BytesThatAreNoTextAreReplaced) {
  Section section("name");
  section.Add("path", std::string("a\xff") + "b");
  EXPECT_FALSE(Json::parse(section.ToJson(), nullptr, false).is_discarded());
}

TEST(DoctorNumaTest, DescribesNodesWithAndWithoutProcessors) {
  const Json json = Parsed(DescribeNuma(
      testing::SyntheticTopology("[numa(memory=8GB)] pack:2 [numa(memory=1GB)] core:2 pu:1")));
  EXPECT_EQ(json["packages"], 2);
  ASSERT_EQ(json["nodes"].size(), 3u);
  EXPECT_EQ(json["nodes"][1]["cpus"], Json({2, 3}));
  EXPECT_THAT(json["nodes"][2]["cpus"], IsEmpty());
  EXPECT_EQ(json["nodes"][2]["memory_bytes"], 8'000'000'000u);
}

TEST(DoctorMemoryTest, AGroupAppearsOnlyWhereThereIsOne) {
  numa::MemoryLimits limits{.total_bytes = 100, .system_available_bytes = 50};
  limits.available_bytes = 50;
  EXPECT_FALSE(Parsed(DescribeMemory(limits)).contains("cgroup"));
  limits.cgroup = numa::CgroupMemory{.path = "/g", .limit_bytes = 40, .used_bytes = 10};
  limits.available_bytes = 30;
  const Json json = Parsed(DescribeMemory(limits));
  EXPECT_EQ(json["cgroup"]["limit_bytes"], 40);
  EXPECT_EQ(json["available_bytes"], 30);
  EXPECT_THAT(Parsed(DescribeMemory(absl::NotFoundError("no proc")))["warnings"].dump(),
              HasSubstr("no proc"));
}

TEST(DoctorLimitsTest, WarnsOfAMemlockThatHolds) {
  numa::MemoryLimits limits{.memlock_bytes = 8 << 20, .max_map_count = 65530};
  EXPECT_THAT(Parsed(DescribeLimits(limits))["warnings"].dump(), HasSubstr("8 MiB"));
  limits.memlock_exempt = true;
  EXPECT_FALSE(Parsed(DescribeLimits(limits)).contains("warnings"));
  limits.memlock_bytes.reset();
  const Json json = Parsed(DescribeLimits(limits));
  EXPECT_FALSE(json.contains("memlock_bytes"));
  EXPECT_EQ(json["memlock_unlimited"], true);
}

TEST(DoctorLimitsTest, MappingsBoundThePages) {
  EXPECT_EQ(MappableBytes(65530, 4096), (65530u - 4096u) / 2 * 4096u);
  EXPECT_EQ(MappableBytes(100, 4096), 0u);
}

TEST(DoctorHugePagesTest, ReadsTheSettingsOfTheKernel) {
  EXPECT_EQ(Bracketed("always [madvise] never"), "madvise");
  EXPECT_EQ(Bracketed("plain"), "plain");
  EXPECT_EQ(Bracketed("]["), "][");
}

TEST(DoctorHugePagesTest, TriesNoMoreThanItMay) {
  EXPECT_EQ(ReadHugePages("", (2 << 20) - 1).reason, "no memory to try it");
  EXPECT_NE(ReadHugePages("", 2 << 20).reason, "no memory to try it");
}

TEST(DoctorHugePagesTest, WarnsWhenAnArenaGotLess) {
  const HugePageFacts facts{
      .enabled = "never", .arena_share = 0, .reason = "MADV_COLLAPSE refused"};
  const Json json = Parsed(DescribeHugePages(facts));
  EXPECT_EQ(json["transparent"], "never");
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("MADV_COLLAPSE refused"));
  EXPECT_FALSE(json.contains("shared_memory"));
}

/// A root directory with the files that tell of a GPU.
class DoctorGpuTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ / path).parent_path());
    root_.Write(path, text);
  }
  TemporaryDirectory root_;
};

TEST_F(DoctorGpuTest, SaysThatThereIsNone) {
  const GpuFacts facts = ReadGpu(root_.path());
  EXPECT_EQ(facts.reason, "no NVIDIA device on the PCI bus, and no driver");
  const Json json = Parsed(DescribeGpu(facts));
  EXPECT_EQ(json["usable"], false);
  EXPECT_FALSE(json.contains("driver"));
  EXPECT_FALSE(json.contains("devices"));
}

TEST_F(DoctorGpuTest, FindsDevicesWithoutADriver) {
  Write("sys/bus/pci/devices/0000:41:00.0/vendor", "0x10de\n");
  Write("sys/bus/pci/devices/0000:41:00.0/class", "0x030200\n");
  Write("sys/bus/pci/devices/0000:42:00.0/vendor", "0x10de\n");
  Write("sys/bus/pci/devices/0000:42:00.0/class", "0x068000\n");  // a bridge
  Write("sys/bus/pci/devices/0000:43:00.0/vendor", "0x1af4\n");
  Write("sys/bus/pci/devices/0000:43:00.0/class", "0x030000\n");
  const GpuFacts facts = ReadGpu(root_.path());
  EXPECT_THAT(facts.pci, ElementsAre("0000:41:00.0"));
  EXPECT_THAT(facts.reason, HasSubstr("its driver is not loaded"));
}

TEST_F(DoctorGpuTest, TellsTheLinkAndTheFreeMemory) {
  testing::FakeCuda fake;
  fake.TakeMemory(256 << 20);
  GpuDevice device;
  ASSERT_EQ(ReadGpuDevice(root_.path(), fake.api(), 0, &device), "");
  EXPECT_EQ(device.link, "") << "the system does not tell";
  Write("sys/bus/pci/devices/0000:00:00.0/current_link_speed", "32.0 GT/s PCIe\n");
  Write("sys/bus/pci/devices/0000:00:00.0/current_link_width", "16\n");
  ASSERT_EQ(ReadGpuDevice(root_.path(), fake.api(), 0, &device), "");
  EXPECT_EQ(device.link, "32.0 GT/s x16");
  EXPECT_EQ(device.free_bytes, (1ULL << 30) - (256 << 20));
  EXPECT_THAT(fake.Leaks(), IsEmpty());
  const Json json = Parsed(DescribeGpu({.driver = "NVRM 1", .devices = {device}}));
  EXPECT_EQ(json["devices"][0]["link"], "32.0 GT/s x16");
  EXPECT_EQ(json["devices"][0]["free_bytes"], 768 << 20);
  EXPECT_THAT(json["shared"].dump(), HasSubstr("a framework's allocator"));
  EXPECT_THAT(DescribeGpu({.driver = "NVRM 1", .devices = {device}}).ToText(),
              HasSubstr("1 GiB of which 768 MiB are free, "));
  EXPECT_THAT(ReadGpuDevice(root_.path(), fake.api(), 1, &device), HasSubstr("does not answer"));
}

TEST(DoctorGpuDescriptionTest, ListsTheDevices) {
  const GpuFacts facts{.driver = "NVRM 1", .devices = {{.name = "A", .memory_bytes = 42}}};
  const Json json = Parsed(DescribeGpu(facts));
  EXPECT_EQ(json["usable"], true);
  EXPECT_EQ(json["devices"][0]["name"], "A");
  EXPECT_FALSE(json.contains("reason"));
}

TEST(IoUringFactsTest, RingsThatMayNotBeEnteredAreNotAvailable) {
  const std::string text = testing::RunInChild([] {
    const std::string failed =
        testing::RefuseSystemCall(SYS_io_uring_enter, EPERM, testing::Refuse::kEveryCall);
    if (!failed.empty()) return failed;
    const IoUringFacts facts = ReadIoUring();
    return (facts.available ? "available " : "not available: ") + facts.reason;
  });
  EXPECT_TRUE(text.starts_with("not available: io_uring_")) << text;
  EXPECT_THAT(text, HasSubstr(": EPERM"));
}

TEST(DoctorTest, ATopologyThatTheContainerRefusesIsAWarningThatNamesTheCall) {
  SLUICE_SKIP_AFFINITY_UNDER_SANITIZERS();
  const TemporaryDirectory directory;
  const std::string text = testing::RunInChild([&]() -> std::string {
    std::string failed =
        testing::RefuseSystemCall(SYS_sched_getaffinity, EPERM, testing::Refuse::kEveryCall);
    if (!failed.empty()) return failed;
    return Doctor({"--directory", directory.path()}).out;
  });
  EXPECT_THAT(text, HasSubstr("! sched_getaffinity is refused (EPERM), so hwloc cannot"));
  EXPECT_THAT(text, HasSubstr("\nchoices\n"));
}

}  // namespace
}  // namespace sluice::tools
