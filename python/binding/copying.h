#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "python/binding/tensor_state.h"

/// Copies of any size between a tensor and a buffer of Python, in pieces, so that any budget will
/// do. They are Runtime::Write and Read with signals of Python handled meanwhile.
/// Raise InvalidArgument (no such bytes, or a buffer that is not C-contiguous), and as
/// PythonOp::Acquire, after which a part may have been copied. REQUIRE: the GIL.

namespace sluice::python {

void CopyIn(const std::shared_ptr<TensorState>& tensor,
            const nanobind::object& source,
            std::uint64_t offset);
void CopyOut(const std::shared_ptr<TensorState>& tensor,
             const nanobind::object& target,
             std::uint64_t offset);

}  // namespace sluice::python
