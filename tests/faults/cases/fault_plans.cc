#include "tests/faults/cases/fault_plans.h"

namespace sluice::faults {
namespace {

using Kind = FaultPlan::Kind;

/// Two blocks, so that a count can end between them.
constexpr std::uint64_t kSplitPage = 8192;

/// More than the trace writes pages that are lost.
constexpr core::FrameIndex kManySlots = 600;

}  // namespace

FaultPlan Error(io::IoDirection direction, int error_number, std::uint64_t times) {
  return {
      .kind = Kind::kError, .error_number = error_number, .times = times, .direction = direction};
}

FaultPlan Refused(io::IoDirection direction, int error_number, std::uint64_t times) {
  FaultPlan plan = Error(direction, error_number, times);
  plan.kind = Kind::kRefused;
  return plan;
}

FaultPlan Everywhere(FaultPlan plan) {
  plan.everywhere = true;
  return plan;
}

FaultPlan Short(io::IoDirection direction, std::uint64_t moved, std::uint64_t times) {
  return {.kind = Kind::kShort, .moved = moved, .times = times, .direction = direction};
}

FaultPlan Silent(io::IoDirection direction, Kind kind, std::uint64_t times) {
  return {.kind = kind, .times = times, .direction = direction};
}

FaultPlan FromThereOn(io::IoDirection direction, Kind kind) {
  return Everywhere(Silent(direction, kind, kAlways));
}

FaultPlan Once(Kind kind) { return {.kind = kind}; }

RunOptions WithPlan(const FaultPlan& plan, Target target) {
  RunOptions options;
  options.plan = plan;
  options.target = target;
  return options;
}

RunOptions WithRoom(const FaultPlan& plan, Target target) {
  RunOptions options = WithPlan(plan, target);
  options.pager.frames.back() = kManySlots;
  return options;
}

RunOptions OnSplitPages(const FaultPlan& plan) {
  RunOptions options = WithPlan(plan);
  options.pager.page_bytes = kSplitPage;
  return options;
}

FaultCase Passes(const std::string& name, const FaultPlan& plan) {
  return {.name = name, .options = WithPlan(plan), .counter = Counter::kRetries};
}

FaultCase Stays(const std::string& name, const FaultPlan& plan, Code code) {
  return {.name = name,
          .options = WithPlan(plan),
          .code = code,
          .seen = Seen::kFull,
          .certain = true,
          .counter = Counter::kRetries};
}

FaultCase MadeAgain(const std::string& name, const FaultPlan& plan, Code code) {
  return {.name = name, .options = WithPlan(plan), .code = code, .certain = true};
}

FaultCase Full(const std::string& name, const FaultPlan& plan, Code code) {
  FaultCase fault = MadeAgain(name, plan, code);
  fault.seen = Seen::kFull;
  return fault;
}

FaultCase Unreadable(const std::string& name, const FaultPlan& plan, Target target) {
  const bool sums = plan.kind == Kind::kFlip;
  return {.name = name,
          .options = WithPlan(plan, target),
          .code = Code::kDataLoss,
          .seen = target == Target::kSoleCopy ? Seen::kLoss : Seen::kNothing,
          .certain = true,
          .counter = sums ? Counter::kChecksumFailures : Counter::kRetries,
          .remedies = {.retires = true}};
}

FaultCase Lost(const std::string& name, const RunOptions& options) {
  return {.name = name,
          .options = options,
          .code = Code::kDataLoss,
          .seen = Seen::kLoss,
          .remedies = {.retires = true}};
}

FaultCase Unregistered(const std::string& name, std::uint64_t registered, std::uint64_t times) {
  FaultCase fault{.name = name};
  fault.options = WithPlan({.kind = Kind::kUnregistered, .moved = registered, .times = times});
  fault.options.act = Act::kRegister;
  return fault;
}

FaultCase RefusedSubmissions(const std::string& name, int error_number, std::uint64_t times) {
  FaultCase fault{.name = name};
  fault.options.disk.in_flight_max = 4;
  fault.options.disk.refusal = {.error_number = error_number, .times = times};
  return fault;
}

}  // namespace sluice::faults
