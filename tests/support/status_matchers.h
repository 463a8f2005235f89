#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/strings.h"
#include "gmock/gmock.h"

namespace sluice::testing {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return arg.ok();
}

MATCHER_P(HasCode, code, "has code " + absl::StatusCodeToString(code)) {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code;
}

/// Code and a part of the message.
MATCHER_P2(IsStatus, code, text, absl::StatusCodeToString(code) + " with \"" + text + "\"") {
  *result_listener << StatusOf(arg).ToString();
  const std::string message(base::ToStd(StatusOf(arg).message()));
  return StatusOf(arg).code() == code && message.find(text) != std::string::npos;
}

}  // namespace sluice::testing
