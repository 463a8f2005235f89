#include "tools/train/run/verifier.h"

#include <algorithm>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/support/median.h"

namespace sluice::tools {

absl::StatusOr<std::unique_ptr<Verifier>> Verifier::Start(const ConfigText& config,
                                                          const gpt::Text& text,
                                                          const std::string& init_path,
                                                          const gpt::StopFn& stop) {
  auto ram = RamRun::Start(config, text, init_path, stop);
  if (!ram.ok()) return base::Annotate(ram.status(), "the run in RAM");
  return std::unique_ptr<Verifier>(new Verifier(*std::move(ram)));
}

void Verifier::CompareFirstValidation(float val_loss) {
  const StepOutcome mine{.val_loss = val_loss, .validated = 1};
  const StepOutcome ram{.val_loss = ram_.first_val_loss(), .validated = 1};
  difference_ = DescribeDifference(0, mine, ram);
}

absl::StatusOr<double> Verifier::RunBlock(std::span<const StepOutcome> paged,
                                          const gpt::StopFn& stop) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<StepOutcome> ram,
                          ram_.RunSteps(static_cast<int>(paged.size()), stop));
  std::vector<double> seconds;
  for (std::size_t i = 0; i < ram.size(); ++i) {
    ++steps_;
    if (difference_.empty()) difference_ = DescribeDifference(steps_, paged[i], ram[i]);
    seconds.push_back(ram[i].seconds);
    const double without_update = ram[i].seconds - ram[i].update_seconds;
    least_ram_seconds_ = std::min(least_ram_seconds_.value_or(without_update), without_update);
  }
  ram_seconds_.insert(ram_seconds_.end(), seconds.begin(), seconds.end());
  ratios_.push_back(SumSeconds(paged) / SumSeconds(ram));
  return Median(std::move(seconds));
}

absl::StatusOr<VerifyReport> Verifier::Finish(gpt::Trainer& trainer, const gpt::StopFn& stop) {
  VerifyReport report;
  SLUICE_ASSIGN_OR_RETURN(const std::string state, ram_.CompareState(trainer, stop));
  const std::string_view both = !difference_.empty() && !state.empty() ? "; " : "";
  report.difference = fmt::format("{}{}{}", state, both, difference_);
  report.identical = report.difference.empty();
  const double ram_seconds = Median(ram_seconds_);
  report.ram_step_ms_median = ram_seconds * 1e3;
  report.ram_gflops = ram_seconds > 0 ? trainer.FlopsPerStep() / ram_seconds / 1e9 : 0;
  report.slowdown = Median(ratios_);
  return report;
}

}  // namespace sluice::tools
