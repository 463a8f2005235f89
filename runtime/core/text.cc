#include <string>

#include "fmt/format.h"
#include "runtime/core/actions.h"
#include "runtime/core/events.h"

namespace sluice::core {
namespace {

std::string Text(const CreateSegment& e) {
  return fmt::format("create segment {} pages {}+{}", e.segment, e.first_page, e.pages);
}
std::string Text(const DiscardPages& e) {
  return fmt::format("discard pages {}+{}", e.first_page, e.pages);
}
std::string Text(const FreePages& e) {
  return fmt::format("free pages {}+{}", e.first_page, e.pages);
}
std::string Text(const BeginIteration& e) { return fmt::format("begin iteration key {}", e.key); }
std::string Text(const EndIteration&) { return "end iteration"; }
std::string Text(const Acquire& e) {
  std::string text = fmt::format("acquire ticket {} op {} lane {}{} name {}:",
                                 e.ticket,
                                 e.op,
                                 e.lane,
                                 e.nested ? ", nested," : "",
                                 e.name);
  for (const PageRequest& r : e.requests) {
    text += fmt::format(" {}@{}/{}", r.page, r.tier, static_cast<int>(r.mode));
  }
  return text;
}
std::string Text(const PrefetchPages& e) {
  return fmt::format("prefetch {} pages, {} ops ahead", e.requests.size(), e.ops_ahead);
}
std::string Text(const Cancel& e) { return fmt::format("cancel ticket {}", e.ticket); }
std::string Text(const Release& e) {
  return fmt::format("release ticket {} pages {}", e.ticket, e.pages.size());
}
std::string Text(const TaskDone& e) { return fmt::format("task {} done", e.task); }
std::string Text(const TaskFailed& e) {
  return fmt::format("task {} failed kind {}", e.task, static_cast<int>(e.kind));
}
std::string Text(const TaskUnderWay& e) { return fmt::format("task {} under way", e.task); }
std::string Text(const GrantUnderWay& e) {
  return fmt::format("grant ticket {} while pages are under way", e.ticket);
}
std::string Text(const ReserveFrames& e) {
  return fmt::format("reserve {} frames of tier {} as {}", e.frames, e.tier, e.reservation);
}
std::string Text(const ReleaseFrames& e) {
  return fmt::format("release reservation {}", e.reservation);
}
std::string Text(const SetBudget& e) {
  return fmt::format("set budget of tier {} to {} frames", e.tier, e.frames);
}
std::string Text(const AbandonCopies& e) {
  return fmt::format("abandon copies in {} frames", e.frames.size());
}
std::string Text(const AdoptPlan& e) {
  return e.plan == nullptr ? fmt::format("no plan for key {}", e.key)
                           : fmt::format("plan for key {} steps {}", e.key, e.plan->leaves.size());
}

std::string Text(const StartCopy& a) {
  return fmt::format("copy task {} page {} generation {} tier {} frame {} -> tier {} frame {}{}",
                     a.task,
                     a.page,
                     a.generation,
                     a.source,
                     a.source_frame,
                     a.target,
                     a.target_frame,
                     a.urgent ? " urgent" : "");
}
std::string Text(const HastenCopy& a) {
  return fmt::format("hasten task {} -> tier {} frame {}", a.task, a.target, a.target_frame);
}
std::string Text(const StartFill& a) {
  return fmt::format("fill task {} page {} tier {} frame {} kind {}",
                     a.task,
                     a.page,
                     a.tier,
                     a.frame,
                     static_cast<int>(a.kind));
}
std::string Text(const StartMap& a) {
  return fmt::format("map task {} page {} tier {} frame {}", a.task, a.page, a.tier, a.frame);
}
std::string Text(const DropFrame& a) {
  return fmt::format("drop page {} tier {} frame {}", a.page, a.tier, a.frame);
}
std::string Text(const GrantTicket& a) {
  return fmt::format("grant ticket {} pages {}", a.ticket, a.frames.size());
}
std::string Text(const FailTicket& a) {
  return fmt::format(
      "fail ticket {} reason {} page {}", a.ticket, static_cast<int>(a.reason), a.page);
}
std::string Text(const LosePage& a) { return fmt::format("lose page {} tier {}", a.page, a.tier); }
std::string Text(const FenceTier& a) { return fmt::format("fence tier {}", a.tier); }
std::string Text(const SegmentCreated& a) { return fmt::format("created segment {}", a.segment); }
std::string Text(const SegmentRefused& a) {
  return fmt::format("refused segment {} available {}", a.segment, a.pages_available);
}
std::string Text(const PagesFreed& a) {
  return fmt::format("freed pages {}+{}", a.first_page, a.pages);
}
std::string Text(const FramesReserved& a) {
  return fmt::format("reserved {} frames as {}", a.frames.size(), a.reservation);
}
std::string Text(const ReservationRefused& a) {
  return fmt::format("refused reservation {}", a.reservation);
}
std::string Text(const BudgetSet& a) {
  return fmt::format("budget of tier {} is {} frames", a.tier, a.frames);
}
std::string Text(const BudgetRefused& a) {
  return fmt::format("refused budget of tier {}", a.tier);
}

}  // namespace

std::string ToString(const Event& event) {
  return std::visit([](const auto& e) { return Text(e); }, event);
}
std::string ToString(const Action& action) {
  return std::visit([](const auto& a) { return Text(a); }, action);
}

}  // namespace sluice::core
