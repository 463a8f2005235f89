#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "sluice/runtime.h"
#include "tools/support/trace_file.h"
#include "tools/train/report/memory_sampler.h"
#include "tools/train/report/run_report.h"
#include "tools/train/run/steps.h"
#include "workloads/gpt/memory/memory.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::tools {

/// Watches a Runtime step by step: differences of its counters, its peaks, memory, and counters for
/// the trace. A tier above its budget stops the program.
/// Threads: externally synchronised.
class RunMonitor {
 public:
  /// `trace`: may be null.
  RunMonitor(const Runtime& runtime, TraceFile* trace, MemorySampler& memory);

  /// BeginStep and EndStep stand around one training step.
  void BeginStep();
  StepRecord EndStep(int step, const gpt::StepResult& result, const StepOutcome& outcome);

  /// Notes an op; the observer for gpt::Memory::SetObserver.
  void OnOp(const gpt::OpTiming& timing);
  /// Fills in the facts that the Runtime and the samples have at the end.
  void Fill(RunReport* report);

 private:
  using Clock = std::chrono::steady_clock;

  void CheckBudgets(const Stats& stats);

  const Runtime& runtime_;
  TraceFile* const trace_;
  MemorySampler& memory_;
  Stats before_;
  Clock::time_point counters_at_;
  TierReports tiers_;
};

}  // namespace sluice::tools
