#include "tools/lab/sim_trace.h"

#include <chrono>
#include <map>
#include <variant>

#include "fmt/format.h"
#include "tools/lab/run/machine_flags.h"

namespace sluice::tools {
namespace {

/// Time on the trace's clock. A time that is later than the clock can tell is at its end.
TraceFile::Time At(double seconds) {
  using Duration = TraceFile::Time::duration;
  const std::chrono::duration<double> since(seconds);
  if (since >= Duration::max()) return TraceFile::Time(Duration::max());
  return TraceFile::Time() + std::chrono::duration_cast<Duration>(since);
}

}  // namespace

void SimTrace::OnEvent(const core::Event& event, double seconds) {
  if (std::holds_alternative<core::BeginIteration>(event)) iteration_begin_s_ = seconds;
  if (!std::holds_alternative<core::EndIteration>(event)) return;
  Add("iterations", fmt::format("iteration {}", ++iterations_), {iteration_begin_s_, seconds});
}

void SimTrace::OnAction(const core::Action& action, double seconds) {
  if (const auto* copy = std::get_if<core::StartCopy>(&action)) {
    pages_[copy->task] = copy->page;
  } else if (const auto* fill = std::get_if<core::StartFill>(&action)) {
    if (fill->kind == core::FillKind::kFile) pages_[fill->task] = fill->page;
  } else if (std::holds_alternative<core::GrantTicket>(action)) {
    CountFrames(seconds);
  }
}

void SimTrace::OnTransfer(std::size_t link, const sim::SimTransfer& transfer) {
  const auto page = pages_.find(transfer.task);
  const bool in = transfer.direction == core::LinkDirection::kIn;
  std::string track = LinkName(setting_.machine, link);
  if (setting_.machine.links[link].paths.size() > 1) {
    track += fmt::format(" path {}", transfer.path + 1);
  }
  Add(track + (in ? " in" : " out"), NameOf(page->second), {transfer.begin_s, transfer.end_s});
  pages_.erase(page);
}

void SimTrace::OnOp(const sim::SimOpRun& run) {
  const sim::PagedOp& op = layout_.ops[run.op];
  const std::string lane = "lane " + layout_.lanes[op.lane];
  const std::string name = op.name.empty() ? fmt::format("op {}", op.id) : op.name;
  if (run.begin_s > run.ready_s) Add(lane + " stall", name, {run.ready_s, run.begin_s});
  Add(lane, name, {run.begin_s, run.end_s});
  CountFrames(run.end_s);
}

void SimTrace::Add(const std::string& track, const std::string& name, Span span) {
  file_.Add({.track = track, .name = name, .begin = At(span.begin_s), .end = At(span.end_s)});
}

void SimTrace::CountFrames(double seconds) {
  std::map<std::string, std::uint64_t> used;
  for (std::size_t i = 0; i < setting_.machine.tiers.size(); ++i) {
    const core::TierCounters tier = core_->tier(static_cast<core::TierIndex>(i));
    used[std::string(ToString(setting_.machine.tiers[i].kind))] = tier.used;
  }
  file_.AddCounters("frames used", At(seconds), used);
}

std::string SimTrace::NameOf(PageIndex page) const {
  const std::uint32_t index = layout_.tensors[page];
  if (index == sim::kNoTensor) return "padding";
  const sim::FileTensor& tensor = setting_.schedule.tensors[index];
  return tensor.name.empty() ? fmt::format("tensor {}", tensor.id) : tensor.name;
}

}  // namespace sluice::tools
