#include "runtime/optim/optimizer/rates.h"

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::optim {

absl::Status CheckRates(std::string_view group, const GroupRates& rates) {
  const auto check = [&](const char* name, double value, double limit) {
    if (value >= 0 && value < limit) return absl::OkStatus();
    return absl::InvalidArgumentError(
        base::ToAbsl(fmt::format("group '{}': {} is {}, allowed is 0 to {}{}",
                                 group,
                                 name,
                                 value,
                                 limit,
                                 limit == 1 ? ", 1 itself not" : "")));
  };
  constexpr double kMax = 1e30;
  SLUICE_RETURN_IF_ERROR(check("learning_rate", rates.learning_rate, kMax));
  SLUICE_RETURN_IF_ERROR(check("beta1", rates.beta1, 1));
  SLUICE_RETURN_IF_ERROR(check("beta2", rates.beta2, 1));
  SLUICE_RETURN_IF_ERROR(check("eps", rates.eps, kMax));
  return check("weight_decay", rates.weight_decay, kMax);
}

}  // namespace sluice::optim
