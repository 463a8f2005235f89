#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Ends the program with the error's text and exit code 3.
inline void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(3);
}

template <typename T>
T Check(absl::StatusOr<T> result) {
  Check(result.status());
  return std::move(result).value();
}
