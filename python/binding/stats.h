#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "sluice/optimizer.h"
#include "sluice/runtime.h"

/// Reports of a Runtime as dicts, whose keys are the names of the fields. REQUIRE: the GIL.

namespace sluice::python {

nanobind::dict DictOf(const Stats& stats);
nanobind::dict DictOf(const HealthReport& health);
nanobind::dict DictOf(const Schedule& schedule);
nanobind::dict DictOf(const OptimizerStep& step);

}  // namespace sluice::python
