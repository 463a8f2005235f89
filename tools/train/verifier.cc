#include "tools/train/verifier.h"

#include <bit>
#include <cstdint>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/median.h"

namespace sluice::tools {
namespace {

bool SameBits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

double SumSeconds(std::span<const StepOutcome> outcomes) {
  double sum = 0;
  for (const StepOutcome& outcome : outcomes) sum += outcome.seconds;
  return sum;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Verifier>> Verifier::Start(const ConfigText& config,
                                                          const gpt::Text& text) {
  auto ram = RamRun::Start(config, text);
  if (!ram.ok()) return base::Annotate(ram.status(), "the run in RAM");
  return std::unique_ptr<Verifier>(new Verifier(*std::move(ram)));
}

void Verifier::CompareFirstValidation(float val_loss) {
  if (SameBits(val_loss, ram_.first_val_loss())) return;
  difference_ = fmt::format("the validation before the first step gives {:.9g}, in RAM {:.9g}",
                            val_loss,
                            ram_.first_val_loss());
}

absl::StatusOr<double> Verifier::RunBlock(std::span<const StepOutcome> paged) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<StepOutcome> ram,
                          ram_.RunSteps(static_cast<int>(paged.size())));
  std::vector<double> seconds;
  for (std::size_t i = 0; i < ram.size(); ++i) {
    Compare(++steps_, paged[i], ram[i]);
    seconds.push_back(ram[i].seconds);
  }
  ram_seconds_.insert(ram_seconds_.end(), seconds.begin(), seconds.end());
  ratios_.push_back(SumSeconds(paged) / SumSeconds(ram));
  return Median(std::move(seconds));
}

void Verifier::Compare(int step, const StepOutcome& paged, const StepOutcome& ram) {
  if (!difference_.empty()) return;
  if (!SameBits(paged.loss, ram.loss)) {
    difference_ =
        fmt::format("the loss of step {} is {:.9g}, in RAM {:.9g}", step, paged.loss, ram.loss);
  } else if (paged.validated != ram.validated || !SameBits(paged.val_loss, ram.val_loss)) {
    difference_ = fmt::format("the validation after step {} gives {:.9g}, in RAM {:.9g}",
                              step,
                              paged.val_loss,
                              ram.val_loss);
  }
}

absl::StatusOr<VerifyReport> Verifier::Finish(gpt::Trainer& trainer) {
  VerifyReport report;
  SLUICE_ASSIGN_OR_RETURN(report.sgemm_gflops, ram_.MeasureGemm());
  SLUICE_ASSIGN_OR_RETURN(const std::string state, ram_.CompareState(trainer));
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
