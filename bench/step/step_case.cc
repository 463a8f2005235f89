#include "bench/step/step_case.h"

#include <algorithm>

#include "bench/store/load.h"
#include "fmt/format.h"

namespace sluice::bench {
namespace {

using optim::GradientType;
using optim::KernelSpec;
using optim::ParameterType;
using optim::StateType;

constexpr KernelSpec kMasterBf16{.state = StateType::kBf16};
constexpr KernelSpec kMaster8Bit{.state = StateType::k8Bit};
constexpr KernelSpec kAllBf16{
    .parameter = ParameterType::kBf16, .state = StateType::kBf16, .gradient = GradientType::kBf16};
constexpr KernelSpec kBf16With8Bit{
    .parameter = ParameterType::kBf16, .state = StateType::k8Bit, .gradient = GradientType::kBf16};

constexpr double kOfDisk = 1.10;
constexpr double kOfDiskOrMemory = 1.15;

/// 512, 256 and 1600 MiB of 2^28 parameters.
constexpr double kUsual = 2;
constexpr double kHalf = 1;
constexpr double kPlenty = 6.25;

std::string BudgetName(const StepCase& which, std::uint64_t parameters) {
  if (which.percent > 0) return fmt::format("{}%", which.percent);
  return SizeName(BudgetBytes(which, parameters));
}

}  // namespace

double KeptBytes(const StepCase& which, std::uint64_t parameters) {
  return BytesPerElement(which.spec).Kept() * static_cast<double>(parameters);
}

std::uint64_t BudgetBytes(const StepCase& which, std::uint64_t parameters) {
  const double bytes = which.percent > 0
                           ? KeptBytes(which, parameters) * which.percent / 100
                           : which.budget_bytes_per_parameter * static_cast<double>(parameters);
  return static_cast<std::uint64_t>(bytes);
}

std::string CaseName(const StepCase& which, std::uint64_t parameters) {
  return fmt::format("{}/{}/{}/{}",
                     ToString(which.spec.optimizer),
                     ToString(which.spec.parameter),
                     ToString(which.spec.state),
                     BudgetName(which, parameters));
}

std::vector<StepCase> StepCases() {
  std::vector<StepCase> cases = {
      {.budget_bytes_per_parameter = kUsual, .limit = kOfDisk},
      {.budget_bytes_per_parameter = kHalf},
      {.budget_bytes_per_parameter = kPlenty},
  };
  for (const int percent : {25, 50, 75}) {
    cases.push_back(
        {.percent = percent, .floor = StepFloor::kDiskOrMemory, .limit = kOfDiskOrMemory});
  }
  const auto add = [&cases](const KernelSpec& spec, double limit) {
    cases.push_back({.spec = spec, .floor = StepFloor::kOwnFp32, .limit = limit});
  };
  add(kMasterBf16, 0.70);
  add(kMaster8Bit, 0.55);
  add(kAllBf16, 0.55);
  add(kBf16With8Bit, 0.40);
  return cases;
}

StepCase OwnFp32(const StepCase& which) {
  return {.spec = {.optimizer = which.spec.optimizer},
          .budget_bytes_per_parameter = which.budget_bytes_per_parameter};
}

double DiskBytes(const StepCase& which, std::uint64_t parameters) {
  const double away =
      KeptBytes(which, parameters) - static_cast<double>(BudgetBytes(which, parameters));
  return 2 * std::max(away, 0.0);
}

double MemoryBytes(const StepCase& which, std::uint64_t parameters) {
  return BytesPerElement(which.spec).Moved() * static_cast<double>(parameters) +
         DiskBytes(which, parameters);
}

}  // namespace sluice::bench
