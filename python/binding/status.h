#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Statuses of the library as Python exceptions. This folder alone throws, as nanobind asks for it:
///
///   RaiseIfError(runtime->EndIteration());
///   const TensorId id = ValueOrRaise(runtime->CreateTensor(spec));

namespace sluice::python {

/// Throws the exception of sluice.errors for the status. REQUIRES: !status.ok(), and the GIL.
[[noreturn]] void Raise(const absl::Status& status);

/// REQUIRES: the GIL.
void RaiseIfError(const absl::Status& status);

/// REQUIRES: the GIL.
template <typename T>
T ValueOrRaise(absl::StatusOr<T> value) {
  if (!value.ok()) Raise(value.status());
  return *std::move(value);
}

}  // namespace sluice::python
