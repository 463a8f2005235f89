#include "runtime/engine/control/background_planner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace sluice::engine {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

PlanBasis Basis() {
  return {.recording = 5,
          .seconds = 2,
          .lead_seconds = 0.1,
          .frames = {10, 20, 30},
          .links = {{.in_s = 1, .out_s = 2}, {.in_s = 3, .out_s = 4}}};
}

TEST(PlanBasisTest, APlanIsKeptWhileLittleChanges) {
  const PlanBasis was = Basis();
  PlanBasis is = was;
  EXPECT_FALSE(HasDrifted(was, is));
  is.seconds *= 1.1;
  is.links[1].in_s *= 0.9;
  is.lead_seconds *= 2;
  is.frames[0] = is.fixed[0] = 1000;
  PlanBasis one_more = is;
  ++one_more.fixed[0];
  EXPECT_FALSE(HasDrifted(is, one_more));
  is.frames = was.frames;
  is.fixed = was.fixed;
  EXPECT_FALSE(HasDrifted(was, is));
}

TEST(PlanBasisTest, EachChangeThatMattersIsDrift) {
  const std::vector<void (*)(PlanBasis*)> changes = {
      [](PlanBasis* basis) { basis->recording = 6; },
      [](PlanBasis* basis) { basis->frames[1] = 19; },
      [](PlanBasis* basis) { basis->fixed[1] = 1; },
      [](PlanBasis* basis) { basis->seconds *= 1.2; },
      [](PlanBasis* basis) { basis->seconds /= 1.2; },
      [](PlanBasis* basis) { basis->lead_seconds *= 4; },
      [](PlanBasis* basis) { basis->links[0].in_s *= 1.4; },
      [](PlanBasis* basis) { basis->links[1].out_s /= 1.4; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    PlanBasis is = Basis();
    changes[i](&is);
    EXPECT_TRUE(HasDrifted(Basis(), is)) << "change " << i;
  }
}

/// Copies of `pages` pages in all that keep the direction busy for at least a millisecond.
void Cross(LinkMeter& meter, std::uint64_t pages) {
  const auto begun = meter.Begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  meter.Succeeded(begun, pages * kPageBytes);
}

TEST(LinkMetersTest, AnUnknownRateIsTakenFromTheOtherDirection) {
  LinkMeters meters;
  const double free = kPageBytes / LinkMeters::kNoHindranceBytesPerSecond;
  for (const core::PlanLink& link : meters.PageSeconds(2, kPageBytes)) {
    EXPECT_DOUBLE_EQ(link.in_s, free);
    EXPECT_DOUBLE_EQ(link.out_s, free);
  }
  LinkMeter& out = meters.Of(1, core::LinkDirection::kOut);
  Cross(out, 20);
  const std::vector<core::PlanLink> links = meters.PageSeconds(2, kPageBytes);
  EXPECT_DOUBLE_EQ(links[0].out_s, free);
  EXPECT_DOUBLE_EQ(links[1].out_s, out.Read().busy_seconds / 20);
  EXPECT_DOUBLE_EQ(links[1].in_s, links[1].out_s);
}

TEST(LinkMetersTest, TheLastLinkIsAsFastAsFilesUntilItIsKnown) {
  LinkMeters meters;
  const double free = kPageBytes / LinkMeters::kNoHindranceBytesPerSecond;
  Cross(meters.OfFiles(), 20);
  const std::vector<core::PlanLink> links = meters.PageSeconds(2, kPageBytes);
  EXPECT_DOUBLE_EQ(links[0].in_s, free);
  EXPECT_DOUBLE_EQ(links[1].in_s, meters.OfFiles().Read().busy_seconds / 20);
  LinkMeter& in = meters.Of(1, core::LinkDirection::kIn);
  Cross(in, 40);
  EXPECT_DOUBLE_EQ(meters.PageSeconds(2, kPageBytes)[1].in_s, in.Read().busy_seconds / 40);
}

TEST(LinkMeterTest, AFewPagesTellNothingAndManyMove) {
  LinkMeter in;
  Cross(in, LinkMeter::kPagesToTell);
  const double first = in.PageSeconds(kPageBytes);
  const double busy = in.Read().busy_seconds;
  EXPECT_DOUBLE_EQ(first, busy / LinkMeter::kPagesToTell);
  Cross(in, 1);
  EXPECT_DOUBLE_EQ(in.PageSeconds(kPageBytes), first);
  Cross(in, 99);  // pages 2 to 100, the first of which told nothing alone
  const double later = (in.Read().busy_seconds - busy) / 100;
  EXPECT_DOUBLE_EQ(in.PageSeconds(kPageBytes), (first + later) / 2);
}

/// A planner that watches a core, whose iterations are one op.
class BackgroundPlannerTest : public ::testing::Test {
 protected:
  void Start(PlanMaker make) {
    core_ = core::Core::Create({.tiers = {{16}, {64}},
                                .policy = *core::CreatePolicy("planned"),
                                .schedules = schedules_})
                .value();
    planner_ = std::make_unique<BackgroundPlanner>(
        BackgroundPlanner::Parts{.meters = &meters_,
                                 .links = 1,
                                 .page_bytes = kPageBytes,
                                 .pages_under_way = 7,
                                 .mailbox = &mailbox_,
                                 .make = std::move(make),
                                 .now = [this] { return now_; }});
    ASSERT_TRUE(planner_->Start({}).ok());
    Tell(core::CreateSegment{.segment = 1, .pages = 4, .lowest = 1});
  }
  void Iterate(core::KeyIndex key, std::chrono::seconds pause = {}) {
    Tell(core::BeginIteration{key});
    const core::TicketNumber ticket = ++tickets_;
    Tell(core::Acquire{.ticket = ticket,
                       .op = ticket,
                       .requests = {{.page = 0, .mode = core::PageMode::kOverwrite}}});
    now_ += kCompute;
    Tell(core::Release{ticket, {0}});
    now_ += pause;
    Tell(core::EndIteration{});
  }

  /// Takes the plan that comes next; false when none does.
  bool TakePlan(core::KeyIndex key) {
    std::vector<Message> messages;
    mailbox_.PopAll(&messages, std::chrono::steady_clock::now() + std::chrono::seconds(10));
    if (messages.size() != 1) return false;
    auto notice = std::get<PlanNotice>(std::move(messages.front()));
    planner_->Note(notice);
    Tell(notice.event);
    return notice.event.key == key;
  }

  core::ScheduleLimits schedules_;
  LinkMeters meters_;
  Mailbox mailbox_{16};
  std::unique_ptr<core::Core> core_;
  std::unique_ptr<BackgroundPlanner> planner_;

 private:
  /// Sends the event, and ends at once whatever the core starts.
  void Tell(const core::Event& event) {
    std::vector<core::Action> actions;
    core_->Handle(event, &actions);
    planner_->Observe(*core_, event, actions);
    for (const core::Action& action : actions) {
      const auto* fill = std::get_if<core::StartFill>(&action);
      if (fill != nullptr) Tell(core::TaskDone{fill->task});
    }
  }

  static constexpr std::chrono::seconds kCompute{2};

  StepClock::TimePoint now_{};
  core::TicketNumber tickets_ = 0;
};

TEST_F(BackgroundPlannerTest, APlanThatIsBeingMadeIsGivenUpAtDestruction) {
  std::atomic<bool> begun = false;
  std::atomic<bool> stopped = false;
  Start([&](const core::PlanInput& input, const core::PlanStop& stop) -> std::optional<core::Plan> {
    EXPECT_EQ(input.pages_under_way, 7u);
    begun = true;
    while (!stop()) std::this_thread::yield();
    stopped = true;
    return std::nullopt;
  });
  Iterate(0);
  while (!begun) std::this_thread::yield();
  planner_.reset();
  EXPECT_TRUE(stopped);
}

TEST_F(BackgroundPlannerTest, APlanThatWentWhileAnotherWasMadeIsMadeAgain) {
  schedules_.schedules_max = 2;
  Start(core::TryMakePlan);
  Iterate(0);
  ASSERT_TRUE(TakePlan(0));
  Iterate(1);  // the plan of key 1 is being made
  Iterate(2);  // this displaces the recording of key 0, and its plan
  EXPECT_FALSE(core_->HasPlan(0));
  Iterate(0);  // key 0's old iteration displaces key 1
  ASSERT_TRUE(TakePlan(1));
  EXPECT_FALSE(core_->HasPlan(1)) << "the schedule has gone meanwhile";
  Iterate(0);
  EXPECT_TRUE(TakePlan(0));
  EXPECT_TRUE(core_->HasPlan(0));
}

TEST_F(BackgroundPlannerTest, OneLongIterationIsNoReasonToPlanAgain) {
  Start(core::TryMakePlan);
  constexpr std::chrono::seconds kPause{7};
  Iterate(0);
  ASSERT_TRUE(TakePlan(0));
  for (int round = 0; round < 3; ++round) {
    Iterate(0);
    Iterate(0, kPause);
    Iterate(0);
  }
  std::vector<Message> messages;
  mailbox_.PopAll(&messages, std::chrono::steady_clock::now() + std::chrono::milliseconds(200));
  EXPECT_TRUE(messages.empty());
  Iterate(0, kPause);
  Iterate(0, kPause);
  EXPECT_TRUE(TakePlan(0)) << "the iteration takes longer for good";
}

}  // namespace
}  // namespace sluice::engine
