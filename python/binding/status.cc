#include "python/binding/status.h"

#include <nanobind/nanobind.h>

#include <string>

namespace sluice::python {

namespace nb = nanobind;

void Raise(const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  const std::string message(status.message());
  const nb::object error =
      nb::module_::import_("sluice.errors").attr("from_status")(code.c_str(), message.c_str());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

void RaiseIfError(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}

}  // namespace sluice::python
