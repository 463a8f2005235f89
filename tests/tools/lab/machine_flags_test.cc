#include "tools/lab/run/machine_flags.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::tools {
namespace {

using ::sluice::testing::IsOk;
using ::sluice::testing::IsStatus;

constexpr double kGiB = 1 << 30;
const std::string kTiers = "hbm=1GiB,dram=2GiB";

sim::Machine Parsed(const std::string& tiers, const std::vector<std::string>& links) {
  const auto machine = ParseMachine(tiers, links, false);
  EXPECT_THAT(machine, IsOk());
  return machine.ok() ? *machine : sim::Machine{};
}

sim::MachinePath Link(const std::string& text) {
  const sim::Machine machine = Parsed(kTiers, {"hbm-dram=" + text});
  return machine.links.empty() ? sim::MachinePath{} : machine.links[0].paths.at(0);
}

auto Refused(const std::string& message) {
  return IsStatus(absl::StatusCode::kInvalidArgument, message);
}

absl::Status Tiers(const std::string& text) {
  return ParseMachine(text, {"hbm-dram=1GiB/s"}, false).status();
}

absl::Status Links(const std::vector<std::string>& texts) {
  return ParseMachine(kTiers, texts, false).status();
}

TEST(MachineFlagsTest, TiersAreInTheOrderOfTheirSpeed) {
  const sim::Machine machine =
      Parsed("nvme=4GiB,hbm0=1GiB,dram=2GiB", {"dram-nvme=2GiB/s", "hbm-dram=1GiB/s"});
  ASSERT_EQ(machine.tiers.size(), 3u);
  EXPECT_EQ(machine.tiers[0].kind, TierKind::kHbm);
  EXPECT_EQ(machine.tiers[0].bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(machine.tiers[2].kind, TierKind::kNvme);
  EXPECT_EQ(machine.tiers[2].bytes, std::uint64_t{4} << 30);
  ASSERT_EQ(machine.links.size(), 2u);
  EXPECT_EQ(machine.links[0].paths[0].in_bytes_per_s, kGiB);
  EXPECT_EQ(machine.links[1].paths[0].in_bytes_per_s, 2 * kGiB);
  EXPECT_EQ(LinkName(machine, 1), "dram-nvme");
}

TEST(MachineFlagsTest, ALinkDownFromTheLastTierAddsOne) {
  const sim::Machine machine = Parsed(kTiers, {"hbm-dram=1GiB/s", "dram-nvme=1GiB/s"});
  ASSERT_EQ(machine.tiers.size(), 3u);
  EXPECT_EQ(machine.tiers[2].bytes, sim::MachineTier::kUnlimited);
  EXPECT_EQ(Parsed("hbm=1GiB", {"hbm-nvme=1GiB/s"}).tiers.size(), 2u);
}

TEST(MachineFlagsTest, RatesOfALink) {
  sim::MachinePath link = Link("1.5GiB/s");
  EXPECT_EQ(link.in_bytes_per_s, 1.5 * kGiB);
  EXPECT_EQ(link.out_bytes_per_s, 1.5 * kGiB);
  EXPECT_EQ(link.both_bytes_per_s, 0);
  EXPECT_EQ(link.latency_s, 0);
  EXPECT_FALSE(link.serial);
  link = Link("3GiB/s/2GiB/s");
  EXPECT_EQ(link.in_bytes_per_s, 3 * kGiB);
  EXPECT_EQ(link.out_bytes_per_s, 2 * kGiB);
  EXPECT_EQ(link.both_bytes_per_s, 0);
  EXPECT_EQ(Link("3GiB/s/2GiB/s/4GiB/s").both_bytes_per_s, 4 * kGiB);
  EXPECT_EQ(Link("3GiB/s,half").both_bytes_per_s, 3 * kGiB);
}

TEST(MachineFlagsTest, LatencyOfALink) {
  EXPECT_DOUBLE_EQ(Link("1GiB/s,50us").latency_s, 50e-6);
  EXPECT_DOUBLE_EQ(Link("1GiB/s,2.5ms").latency_s, 2.5e-3);
  EXPECT_DOUBLE_EQ(Link("1GiB/s,700ns").latency_s, 700e-9);
  EXPECT_DOUBLE_EQ(Link("1GiB/s,half,1s").latency_s, 1);
  EXPECT_DOUBLE_EQ(Link("1GiB/s,1000s").latency_s, 1000);
  const auto serial = ParseMachine(kTiers, {"hbm-dram=1GiB/s,50us"}, true);
  ASSERT_THAT(serial, IsOk());
  EXPECT_TRUE(serial->links[0].paths[0].serial);
}

TEST(MachineFlagsTest, ALinkThatIsNamedAgainHasAnotherPath) {
  const sim::Machine machine = Parsed(kTiers,
                                      {"dram-nvme=3GiB/s,50us",
                                       "hbm-dram=9GiB/s",
                                       "dram0-nvme0=1GiB/s/2GiB/s/2.5GiB/s,80us",
                                       "dram-nvme=4GiB/s,half"});
  ASSERT_EQ(machine.links.size(), 2u);
  EXPECT_EQ(machine.links[0].paths.size(), 1u);
  const std::vector<sim::MachinePath>& paths = machine.links[1].paths;
  ASSERT_EQ(paths.size(), 3u);
  EXPECT_EQ(paths[0].in_bytes_per_s, 3 * kGiB);
  EXPECT_EQ(paths[0].both_bytes_per_s, 0);
  EXPECT_DOUBLE_EQ(paths[0].latency_s, 50e-6);
  EXPECT_EQ(paths[1].out_bytes_per_s, 2 * kGiB);
  EXPECT_EQ(paths[1].both_bytes_per_s, 2.5 * kGiB);
  EXPECT_DOUBLE_EQ(paths[1].latency_s, 80e-6);
  EXPECT_EQ(paths[2].both_bytes_per_s, 4 * kGiB);
  EXPECT_EQ(paths[2].latency_s, 0);
  const auto serial = ParseMachine(kTiers, {"hbm-dram=1GiB/s", "hbm-dram=2GiB/s"}, true);
  ASSERT_THAT(serial, IsOk());
  for (const sim::MachinePath& path : serial->links[0].paths) EXPECT_TRUE(path.serial);
}

TEST(MachineFlagsTest, WrongPathsSayWhatIsRight) {
  const std::string up = "hbm-dram=1GiB/s";
  EXPECT_THAT(Links({up, "dram-hbm=1GiB/s"}), Refused("\"dram-hbm\": name the faster tier first"));
  EXPECT_THAT(Links({up, "hbm-dram=0GiB/s"}), Refused("--link: hbm-dram: \"0GiB/s\" is no rate"));
  EXPECT_THAT(Links({up, "hbm-dram=1GiB/s,50"}), Refused("\"50\" is no latency"));
  std::vector<std::string> many(sim::MachineLink::kPathsMax, up);
  EXPECT_THAT(Links(many), IsOk());
  many.push_back(up);
  EXPECT_THAT(Links(many), Refused("--link: hbm-dram has more than 16 paths; give some as one"));
}

TEST(MachineFlagsTest, WrongTiersSayWhatIsRight) {
  for (const std::string text : {"", "hbm", "hbm=", "=1GiB", "hbm=1GiB,"}) {
    EXPECT_THAT(Tiers(text), Refused("is not of the form TIER=BYTES, as hbm=40GiB")) << text;
  }
  EXPECT_THAT(Tiers("hbm"), Refused("--tiers: \"hbm\""));
  EXPECT_THAT(Tiers("hbm=x"), Refused("--tiers: \"x\" is not a size; write a number with"));
  EXPECT_THAT(Tiers("hmb=1GiB"), Refused("--tiers: \"hmb\" is not a tier; the kinds are hbm"));
  EXPECT_THAT(Tiers("hbm=1GiB,hbm0=2GiB"), Refused("--tiers: hbm is given twice; leave one out"));
  EXPECT_THAT(Tiers("hbm1=1GiB,dram=1GiB"),
              Refused("--tiers: \"hbm1\": one tier of a kind is simulated; give their sum as hbm"));
  EXPECT_THAT(Tiers("dram=1GiB"),
              Refused("--tiers: one tier leaves nothing to move; name another"));
}

TEST(MachineFlagsTest, WrongLinksSayWhatIsRight) {
  const auto link = [](const std::string& text) { return Links({"hbm-dram=" + text}); };
  for (const std::string text : {"hbm-dram", "hbm-dram=", "=1GiB/s", ""}) {
    EXPECT_THAT(Links({text}), Refused("is not of the form NAME=IN[/OUT][/BOTH][,LATENCY][,half]"));
  }
  for (const std::string text : {"5GiB", "5", "1GiB/s/2GiB", "1B/s/1B/s/1B/s/1B/s", ",50us"}) {
    EXPECT_THAT(link(text), Refused("is not IN[/OUT][/BOTH]; give rates like")) << text;
  }
  for (const std::string text : {"0GiB/s", "xGiB/s", "-1GiB/s", "99999999999GiB/s", "1e9B/s"}) {
    EXPECT_THAT(link(text), Refused("is no rate; give one like 15.754GiB/s")) << text;
  }
  for (const std::string text :
       {"", "50", "us", "-5us", "infs", "nans", "1e999s", "5 us", "Half"}) {
    EXPECT_THAT(link("1GiB/s," + text), Refused("is no latency; give one like 50us")) << text;
  }
  EXPECT_THAT(link("1GiB/s,50"), Refused("--link: hbm-dram: \"50\" is no latency"));
  EXPECT_THAT(link("1GiB/s,1001s"), Refused("is longer than any link takes; give at most 1000s"));
  EXPECT_THAT(link("1GiB/s,1e300ms"), Refused("give at most 1000s"));
  EXPECT_THAT(link("1GiB/s,1us,2us"), Refused("has two latencies; leave one out"));
  EXPECT_THAT(link("1GiB/s/2GiB/s,half"), Refused("with half the directions share one rate"));
}

TEST(MachineFlagsTest, LinksJoinNeighbours) {
  const std::string up = "hbm-dram=1GiB/s";
  EXPECT_THAT(Links({}),
              Refused("--link hbm-dram=IN is missing: say how fast hbm-dram is, as "
                      "hbm-dram=15.754GiB/s,50us"));
  EXPECT_THAT(Links({"dram-hbm=1GiB/s"}), Refused("\"dram-hbm\": name the faster tier first"));
  EXPECT_THAT(Links({"hbm-hbm=1GiB/s"}), Refused("name the faster tier first"));
  EXPECT_THAT(Links({"hbm=1GiB/s"}), Refused("\"hbm\" names no link; give two tiers, as hbm-dram"));
  EXPECT_THAT(Links({"hbm-ram=1GiB/s"}), Refused("\"ram\" is not a tier"));
  EXPECT_THAT(Links({up, "hbm-nvme=1GiB/s"}),
              Refused("--link hbm-nvme: these are not neighbours among the tiers; give their sizes "
                      "in --tiers, or leave the link out"));
}

}  // namespace
}  // namespace sluice::tools
