#include "tools/train/report/step_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "fmt/format.h"
#include "tools/support/wrap.h"

namespace sluice::tools {
namespace {

/// "0.25 in 0.5 out MiB"
std::string Crossed(const LinkBytes& bytes) {
  const auto in = static_cast<double>(bytes.in);
  const auto out = static_cast<double>(bytes.out);
  constexpr double kMiB = 1 << 20;
  constexpr double kGiB = 1 << 30;
  if (std::max(in, out) < 0.1 * kGiB) {
    return fmt::format("{:.2f} in {:.2f} out MiB", in / kMiB, out / kMiB);
  }
  return fmt::format("{:.3f} in {:.3f} out GiB", in / kGiB, out / kGiB);
}

/// A NaN may have a sign, which says nothing.
std::string LossText(double loss) { return std::isnan(loss) ? "nan" : fmt::format("{:.4f}", loss); }

}  // namespace

std::string FormatStep(const StepRecord& step, int steps, std::optional<float> val_loss) {
  constexpr std::size_t kIndent = 4;
  std::vector<std::string> parts = {fmt::format("step {:>4}/{}", step.step, steps),
                                    "loss " + LossText(step.loss),
                                    fmt::format("{:.1f} ms", step.seconds * 1e3),
                                    fmt::format("stall {:.1f} ms", step.stall_seconds * 1e3)};
  if (val_loss.has_value()) parts.push_back("validation loss " + LossText(*val_loss));
  for (const auto& [name, bytes] : step.links) {
    parts.push_back(fmt::format("{} {}", name, Crossed(bytes)));
  }
  return Wrap(parts, "  ", kIndent) + "\n";
}

}  // namespace sluice::tools
