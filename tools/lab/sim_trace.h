#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "runtime/sim/schedule/page_layout.h"
#include "runtime/sim/simulator/sim_observer.h"
#include "tools/lab/run/run_report.h"
#include "tools/support/trace_file.h"

namespace sluice::tools {

/// Draws a simulation: iterations, a track of ops and one of stalls per lane, a track per direction
/// of each link, and the frames used of each tier. Its times count from TraceFile::Time().
class SimTrace final : public sim::SimObserver {
 public:
  /// All parameters outlive the object.
  SimTrace(const RunSetting& setting, const sim::PageLayout& layout, TraceFile* file)
      : setting_(setting), layout_(layout), file_(*file) {}

  void OnStart(const core::Core& core) override { core_ = &core; }
  void OnEvent(const core::Event& event, double seconds) override;
  void OnAction(const core::Action& action, double seconds) override;
  void OnTransfer(std::size_t link, const sim::SimTransfer& transfer) override;
  void OnOp(const sim::SimOpRun& run) override;

 private:
  struct Span {
    double begin_s = 0;
    double end_s = 0;
  };
  void Add(const std::string& track, const std::string& name, Span span);
  void CountFrames(double seconds);
  std::string NameOf(PageIndex page) const;

  const RunSetting& setting_;
  const sim::PageLayout& layout_;
  TraceFile& file_;
  const core::Core* core_ = nullptr;
  int iterations_ = 0;
  double iteration_begin_s_ = 0;
  absl::flat_hash_map<core::TaskNumber, PageIndex> pages_;  ///< pages of the copies on links
};

}  // namespace sluice::tools
