#pragma once

#include <utility>

#include "absl/status/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::optim {

template <typename... Args>
absl::Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(base::ToAbsl(fmt::format(format, std::forward<Args>(args)...)));
}

template <typename... Args>
absl::Status NotReady(fmt::format_string<Args...> format, Args&&... args) {
  return absl::FailedPreconditionError(
      base::ToAbsl(fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace sluice::optim
