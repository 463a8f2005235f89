#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "python/binding/held_lease.h"

namespace sluice::python {

/// A "dltensor" capsule on the tensor's memory, C-contiguous. Its taker calls the deleter, from any
/// thread and without the GIL; without a taker the capsule does. REQUIRES: the GIL.
nanobind::capsule MakeCapsule(std::shared_ptr<TensorState> tensor,
                              std::byte* bytes,
                              const std::vector<std::int64_t>& shape,
                              DlpackType type);

}  // namespace sluice::python
