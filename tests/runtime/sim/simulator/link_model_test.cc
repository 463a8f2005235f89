#include "runtime/sim/simulator/link_model.h"

#include <array>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::sim {
namespace {

using core::LinkDirection;
using ::testing::ElementsAre;

constexpr MachinePath kSlow = {.in_bytes_per_s = 100, .out_bytes_per_s = 50};
constexpr MachinePath kFast = {.in_bytes_per_s = 200, .out_bytes_per_s = 100};
constexpr std::uint64_t kPage = 100;

SimOrder Order(LinkDirection direction, std::uint32_t place) {
  return {.direction = direction, .task = place, .bytes = kPage, .place = place};
}

SimOrder FileRead(std::uint32_t page) {
  SimOrder order = Order(LinkDirection::kIn, page);
  order.from_file = true;
  return order;
}

/// Transfers that finish until the link is idle.
std::vector<PathModel::Finished> Drain(LinkModel* link) {
  std::vector<PathModel::Finished> finished;
  while (link->next() < PathModel::kNever) finished.push_back(link->Finish());
  return finished;
}

/// The paths of the transfers, by the place that they have below the link.
std::vector<std::size_t> PathsTaken(LinkModel* link, std::size_t places) {
  std::vector<std::size_t> paths(places);
  for (const auto& finished : Drain(link)) paths[finished.transfer.task] = finished.transfer.path;
  return paths;
}

/// Keeps 8 transfers in flight until `count` have begun. Returns the time when the last one left.
double Saturate(LinkModel* link, LinkDirection direction, std::uint32_t count) {
  constexpr std::uint32_t kUnderWay = 8;
  double now = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i >= kUnderWay) now = link->Finish().transfer.end_s;
    link->Start(Order(direction, i), now);
  }
  return Drain(link).back().transfer.end_s;
}

TEST(LinkModelTest, PathsShareInProportionToTheirSpeed) {
  for (const LinkDirection direction : {LinkDirection::kIn, LinkDirection::kOut}) {
    constexpr std::uint32_t kCount = 300;
    LinkModel link({{kSlow, kFast}}, false);
    const double end = Saturate(&link, direction, kCount);
    EXPECT_EQ(link.paths()[0].bytes(direction), kCount / 3 * kPage);
    EXPECT_EQ(link.paths()[1].bytes(direction), kCount * 2 / 3 * kPage);
    const double together = direction == LinkDirection::kIn ? 300 : 150;
    EXPECT_NEAR(end, kCount * kPage / together, 1e-6);
  }
}

TEST(LinkModelTest, SharesDifferByLessThanTwoPages) {
  constexpr std::array<double, 3> kRates = {70, 110, 320};
  MachineLink machine_link;
  for (const double rate : kRates) {
    machine_link.paths.push_back({.in_bytes_per_s = rate, .out_bytes_per_s = rate});
  }
  for (std::uint32_t count = 1; count < 120; ++count) {
    LinkModel link(machine_link, true);
    Saturate(&link, LinkDirection::kOut, count);
    for (std::size_t i = 0; i < kRates.size(); ++i) {
      const double pages = static_cast<double>(link.paths()[i].bytes(LinkDirection::kOut)) / kPage;
      EXPECT_NEAR(pages, count * kRates[i] / 500, 1.5) << count << " pages, path " << i;
    }
  }
}

TEST(LinkModelTest, OnePathIsThatPathToTheLastDigit) {
  const MachinePath path = {.in_bytes_per_s = 97.3,
                            .out_bytes_per_s = 41.7,
                            .both_bytes_per_s = 103.1,
                            .latency_s = 0.013};
  for (const bool drives : {false, true}) {
    LinkModel link({{path}}, drives);
    PathModel alone(path);
    for (std::uint32_t i = 0; i < 50; ++i) {
      const auto direction = static_cast<LinkDirection>(i * i / 3 % 2);
      const double now = i * 0.37;
      while (link.next() <= now) {
        EXPECT_EQ(link.next(), alone.next());
        EXPECT_EQ(link.Finish().complete_s, alone.Finish().complete_s);
      }
      link.Start(Order(direction, i), now);
      alone.Start(direction, i, kPage, now);
    }
    while (alone.next() < PathModel::kNever) {
      const auto finished = link.Finish();
      EXPECT_EQ(finished.complete_s, alone.Finish().complete_s);
      EXPECT_EQ(finished.transfer.path, 0u);
    }
    EXPECT_EQ(link.next(), PathModel::kNever);
    EXPECT_EQ(link.paths()[0].busy(LinkDirection::kIn), alone.busy(LinkDirection::kIn));
  }
}

TEST(LinkModelTest, TheFirstOfEquallySoonPathsIsTaken) {
  LinkModel link({{kSlow, kSlow, kSlow}}, false);
  for (std::uint32_t i = 0; i < 5; ++i) link.Start(Order(LinkDirection::kIn, i), 0);
  EXPECT_THAT(PathsTaken(&link, 5), ElementsAre(0, 1, 2, 0, 1));
}

TEST(LinkModelTest, LatencyAndWhatGoesTheOtherWayCount) {
  MachinePath far = kFast;  // half a second faster for a page
  far.latency_s = 0.75;
  LinkModel patient({{kSlow, far}}, false);
  patient.Start(Order(LinkDirection::kIn, 0), 0);
  EXPECT_THAT(PathsTaken(&patient, 1), ElementsAre(0));

  MachinePath half = kFast;  // a page takes 0.75 s beside another
  half.both_bytes_per_s = 200;
  LinkModel link({{half, {.in_bytes_per_s = 140, .out_bytes_per_s = 10}}}, false);
  link.Start(Order(LinkDirection::kOut, 0), 0);
  link.Start(Order(LinkDirection::kIn, 1), 0);
  EXPECT_THAT(PathsTaken(&link, 2), ElementsAre(0, 1));
}

TEST(LinkModelTest, PagesOnDrivesComeBackAsTheyWent) {
  LinkModel link({{kSlow, kSlow}}, true);
  for (std::uint32_t i = 0; i < 4; ++i) link.Start(Order(LinkDirection::kOut, i), 0);
  EXPECT_THAT(PathsTaken(&link, 4), ElementsAre(0, 1, 0, 1));
  // Pages 0 and 2 lie on the first drive: one waits, though the other drive is idle.
  link.Start(Order(LinkDirection::kIn, 0), 100);
  link.Start(Order(LinkDirection::kIn, 2), 100);
  const auto both = Drain(&link);
  EXPECT_EQ(both[1].complete_s, 102);
  EXPECT_EQ(both[1].transfer.path, 0u);
  // A frame that is written again lies where it was written last.
  link.Start(Order(LinkDirection::kOut, 9), 200);
  link.Start(Order(LinkDirection::kOut, 2), 200);
  Drain(&link);
  link.Start(Order(LinkDirection::kIn, 2), 300);
  EXPECT_EQ(Drain(&link)[0].transfer.path, 1u);
}

TEST(LinkModelTest, MemoryIsReachedOverAllPaths) {
  LinkModel link({{kSlow, kSlow}}, false);
  for (std::uint32_t i = 0; i < 3; ++i) link.Start(Order(LinkDirection::kOut, i), 0);
  Drain(&link);
  link.Start(Order(LinkDirection::kIn, 0), 100);
  link.Start(Order(LinkDirection::kIn, 2), 100);
  for (const auto& finished : Drain(&link)) EXPECT_EQ(finished.complete_s, 101);
}

TEST(LinkModelTest, FilesLieOnDrivesInProportionToReading) {
  const MachinePath writer = {.in_bytes_per_s = 50, .out_bytes_per_s = 900};
  LinkModel link({{kSlow, writer}}, true);
  link.PlaceInFile(0, 3);
  link.PlaceInFile(10, 3);  // pages that do not lie in files are not counted
  std::vector<std::size_t> paths;
  for (const std::uint32_t page : {0, 1, 2, 10, 11, 12}) {
    link.Start(FileRead(page), page * 10);
    paths.push_back(Drain(&link)[0].transfer.path);
  }
  EXPECT_THAT(paths, ElementsAre(0, 0, 1, 0, 0, 1));
}

TEST(LinkModelTest, AFrameAndAPageOfOneNumberAreTwoPlaces) {
  LinkModel link({{kFast, kSlow}}, true);
  link.PlaceInFile(0, 2);  // the fast one, twice
  link.Start(Order(LinkDirection::kOut, 0), 0);
  link.Start(Order(LinkDirection::kOut, 5), 0);
  link.Start(Order(LinkDirection::kOut, 1), 0);
  Drain(&link);
  link.Start(FileRead(1), 100);
  EXPECT_EQ(Drain(&link)[0].transfer.path, 0u);
  link.Start(Order(LinkDirection::kIn, 1), 200);
  EXPECT_EQ(Drain(&link)[0].transfer.path, 1u);
}

}  // namespace
}  // namespace sluice::sim
