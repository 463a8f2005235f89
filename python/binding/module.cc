#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "python/binding/background/copier.h"
#include "python/binding/copying.h"
#include "python/binding/held_lease.h"
#include "python/binding/named.h"
#include "python/binding/python_op.h"
#include "python/binding/python_optimizer.h"
#include "python/binding/session.h"
#include "python/binding/stats.h"
#include "python/binding/status.h"
#include "python/binding/tensor_state.h"
#include "python/binding/waiting.h"
#include "python/binding/weights/open_weights.h"
#include "sluice/config.h"
#include "sluice/options.h"

/// The module sluice._core, on which python/src/sluice is built. Its stub,
/// python/src/sluice/_core.pyi, names the arguments and results of each function.

namespace sluice::python {
namespace {

namespace nb = nanobind;

std::shared_ptr<TensorState> CreateTensor(
    const std::shared_ptr<Session>& session,
    const std::string& name,
    const std::vector<std::int64_t>& shape,
    const std::string& dtype,
    const std::string& kind,
    const std::string& lowest,
    const std::string& off_lease,
    const std::optional<std::tuple<std::string, std::uint64_t, bool>>& file) {
  TensorSpec spec{.name = name,
                  .shape = shape,
                  .dtype = Named(dtype, DType::kI64, "dtype"),
                  .kind = Named(kind, TensorKind::kOther, "kind"),
                  .lowest = Named(lowest, TierKind::kNvme, "lowest"),
                  .off_lease = Named(off_lease, OffLease::kReadable, "off_lease")};
  if (file) {
    const auto& [path, offset, read_only] = *file;
    spec.file = FileHome{.path = path, .offset = offset, .read_only = read_only};
  }
  return TensorState::Create(session, spec);
}

/// The tensor's bytes outside a lease, read-only. REQUIRES: a tensor that is readable there.
std::unique_ptr<LentMemory> LendOffLease(const std::shared_ptr<TensorState>& tensor) {
  tensor->RefuseFreed();
  const std::shared_ptr<Runtime> runtime = tensor->session().runtime();
  const std::span<const std::byte> bytes = ValueOrRaise(runtime->AddressOf(tensor->id()));
  return std::make_unique<LentMemory>(
      tensor, const_cast<std::byte*>(bytes.data()), bytes.size(), /*writable=*/false);
}

/// Calls `call(runtime)` without the GIL; it returns a status.
template <typename Call>
void CallRuntime(const Session& session, const Call& call) {
  const std::shared_ptr<Runtime> runtime = session.runtime();
  RaiseIfError(WithoutGil([&] { return call(*runtime); }));
}

void Prefetch(const Session& session,
              const std::vector<Request>& requests,
              std::uint32_t ops_ahead) {
  std::vector<Access> accesses;
  for (const Request& request : requests) accesses.push_back(AccessOf(request));
  CallRuntime(session, [&](Runtime& runtime) { return runtime.Prefetch(accesses, ops_ahead); });
}

void SetBudget(const Session& session, const std::string& tier, std::uint64_t bytes) {
  const TierId id = ValueOrRaise(ParseTierId(tier));
  CallRuntime(session, [&](Runtime& runtime) { return runtime.SetBudget(id, Bytes(bytes)); });
}

void Discard(const std::shared_ptr<TensorState>& tensor) {
  tensor->RefuseFreed();
  CallRuntime(tensor->session(), [&](Runtime& runtime) { return runtime.Discard(tensor->id()); });
}

nb::dict GetStats(const Session& session) {
  const std::shared_ptr<Runtime> runtime = session.runtime();
  return DictOf(WithoutGil([&] { return runtime->GetStats(); }));
}

nb::dict GetSchedule(const Session& session, const std::string& key) {
  const std::shared_ptr<Runtime> runtime = session.runtime();
  return DictOf(ValueOrRaise(WithoutGil([&] { return runtime->RecordedSchedule(key); })));
}

nb::dict Health(const Session& session) {
  const std::shared_ptr<Runtime> runtime = session.runtime();
  return DictOf(WithoutGil([&] { return runtime->Health(); }));
}

/// (level of the module logging, text) per line.
nb::list TakeLog(Session& session) {
  constexpr std::array kLevels = {20, 30, 40};
  nb::list list;
  if (session.in_child()) return list;
  auto [lines, dropped] = session.reports().TakeLines();
  for (const LogLine& line : lines) {
    list.append(nb::make_tuple(kLevels.at(static_cast<std::size_t>(line.level)), line.text));
  }
  if (dropped > 0) list.append(nb::make_tuple(30, std::to_string(dropped) + " lines were dropped"));
  return list;
}

/// (intervals as (track, name, begin, end) in seconds of time.monotonic(), number of dropped ones).
nb::tuple StopTrace(Session& session) {
  const auto seconds = [](std::chrono::steady_clock::time_point time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
  };
  nb::list list;
  if (session.in_child()) return nb::make_tuple(list, 0);
  auto [spans, dropped] = session.reports().StopTrace();
  for (const TraceSpan& span : spans) {
    list.append(nb::make_tuple(span.track, span.name, seconds(span.begin), seconds(span.end)));
  }
  return nb::make_tuple(list, dropped);
}

/// Lines "key = value" with every key of a configuration and its default.
std::string OptionDefaults() {
  Config config = ValueOrRaise(Config::Parse("", ""));
  (void)ValueOrRaise(ReadRuntimeOptions(config));
  return config.Values();
}

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  return nb::inst_ptr<LentMemory>(self)->GetBuffer(self, view, flags);
}

void BindSession(nb::module_& module) {
  nb::class_<Session>(module, "Session")
      .def_prop_ro("closed", &Session::closed)
      .def_prop_ro("page_bytes", [](const Session& s) { return s.runtime()->PageBytes().count(); })
      .def_prop_ro("spill_directory", &Session::spill_directory)
      .def("in_use", &Session::InUse)
      .def("close", &Session::Close)
      .def("stats", GetStats)
      .def("health", Health)
      .def("schedule", GetSchedule)
      .def("set_budget", SetBudget)
      .def("begin_iteration",
           [](const Session& session, const std::string& key) {
             CallRuntime(session, [&](Runtime& runtime) { return runtime.BeginIteration(key); });
           })
      .def("end_iteration",
           [](const Session& session) {
             CallRuntime(session, [](Runtime& runtime) { return runtime.EndIteration(); });
           })
      .def("prefetch", Prefetch)
      .def("take_log", TakeLog)
      .def("start_trace",
           [](Session& session) {
             (void)session.runtime();
             return session.reports().StartTrace();
           })
      .def("stop_trace", StopTrace);
  nb::class_<SessionAtExit>(module, "SessionAtExit")
      .def(nb::init<const std::shared_ptr<Session>&>())
      .def_prop_ro("alive", &SessionAtExit::alive)
      .def("close", &SessionAtExit::Close, nb::arg("daemons"));
  module.def("leave", Leave);
  module.def(
      "open", &Session::Create, nb::arg("path").none(), nb::arg("assignments"), nb::arg("share"));
}

void BindTensor(nb::module_& module) {
  nb::class_<TensorState>(module, "TensorState")
      .def_prop_ro("arrays", [](const TensorState& tensor) { return tensor.arrays.load(); })
      .def_prop_ro("storages", [](const TensorState& tensor) { return tensor.storages.load(); })
      .def("free", &TensorState::Free);
  module.def("create_tensor",
             CreateTensor,
             nb::arg("session"),
             nb::arg("name"),
             nb::arg("shape"),
             nb::arg("dtype"),
             nb::arg("kind"),
             nb::arg("lowest"),
             nb::arg("off_lease"),
             nb::arg("file").none());
  module.def("lend_off_lease", LendOffLease, nb::arg("tensor"));
  module.def("name_stray_touches", [] { RaiseIfError(NameStrayTouches()); });
  module.def("copy_in", CopyIn);
  module.def("copy_out", CopyOut);
  module.def("discard", Discard);
}

void BindLease(nb::module_& module) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)},
                                {0, nullptr}};
  nb::class_<LentMemory>(module, "Memory", nb::type_slots(slots));
  nb::class_<HeldLease>(module, "HeldLease")
      .def("check", &HeldLease::Check)
      .def("release", &HeldLease::Release)
      .def_prop_ro("tier", &HeldLease::tier)
      .def_prop_ro("tensor_address",
                   [](const HeldLease& lease) {
                     return reinterpret_cast<std::uintptr_t>(lease.tensor_bytes());
                   })
      .def("lend", &HeldLease::Lend)
      .def("lend_tensor",
           [](const HeldLease& lease,
              const std::vector<std::int64_t>& shape,
              std::uint8_t code,
              std::uint8_t bits) {
             return lease.LendTensor(shape, {code, bits});
           });
  nb::class_<PythonOp>(module, "Op")
      .def(nb::init<std::shared_ptr<Session>, std::string, std::optional<std::string>, bool>(),
           nb::arg("session"),
           nb::arg("name"),
           nb::arg("lane").none(),
           nb::arg("nested") = false)
      .def("acquire",
           &PythonOp::Acquire,
           nb::arg("requests"),
           nb::arg("timeout").none(),
           nb::arg("before") = nb::tuple())
      .def("end", &PythonOp::End);
}

}  // namespace

NB_MODULE(_core, module) {
  // PyTorch may still hold storages at the end of the interpreter. These are no leaks of ours.
  nb::set_leak_warnings(false);
  module.attr("version") = SLUICE_VERSION;
  module.def("parse_bytes",
             [](const std::string& text) { return ValueOrRaise(ParseBytes(text)).count(); });
  module.def("option_defaults", OptionDefaults);
  BindSession(module);
  BindTensor(module);
  BindWeights(module);
  BindLease(module);
  BindCopier(module);
  BindOptimizer(module);
}

}  // namespace sluice::python
