#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "python/binding/python_optimizer.h"

namespace sluice::python {

namespace nb = nanobind;

void BindOptimizer(nb::module_& module) {
  nb::class_<PythonOptimizer>(module, "Optimizer")
      .def("add", &PythonOptimizer::Add)
      .def("move", &PythonOptimizer::Move)
      .def("prefetch", &PythonOptimizer::Prefetch)
      .def("start", &PythonOptimizer::Start, nb::arg("updates"), nb::arg("norm").none())
      .def_prop_ro("started", &PythonOptimizer::started)
      .def_prop_ro("begun", &PythonOptimizer::begun)
      .def("begin", &PythonOptimizer::Begin)
      .def("go_on", &PythonOptimizer::GoOn)
      .def("wait", &PythonOptimizer::Wait)
      .def("wait_for", &PythonOptimizer::WaitFor)
      .def("set_rates", &PythonOptimizer::SetRates)
      .def("rates", &PythonOptimizer::Rates)
      .def("read_state",
           &PythonOptimizer::ReadState,
           nb::arg("parameter"),
           nb::arg("state").none(),
           nb::arg("address"),
           nb::arg("count"))
      .def("write_state",
           &PythonOptimizer::WriteState,
           nb::arg("parameter"),
           nb::arg("state").none(),
           nb::arg("address"),
           nb::arg("count"))
      .def("refresh_master", &PythonOptimizer::RefreshMaster)
      .def("steps_of", &PythonOptimizer::StepsOf)
      .def("set_steps_of", &PythonOptimizer::SetStepsOf)
      .def("save", &PythonOptimizer::Save)
      .def("load", &PythonOptimizer::Load)
      .def("close", &PythonOptimizer::Close);
  module.def("create_optimizer",
             &PythonOptimizer::Create,
             nb::arg("session"),
             nb::arg("kind"),
             nb::arg("state"),
             nb::arg("lowest"),
             nb::arg("clip_norm"),
             nb::arg("norm_given"),
             nb::arg("seed"),
             nb::arg("threads"),
             nb::arg("overlap"));
  module.def("read_note", &PythonOptimizer::ReadNote, nb::arg("directory"));
}

}  // namespace sluice::python
