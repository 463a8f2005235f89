#include "python/binding/weights/open_weights.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "python/binding/dlpack.h"
#include "python/binding/named.h"
#include "python/binding/session.h"
#include "python/binding/status.h"
#include "python/binding/tensor_state.h"
#include "python/binding/waiting.h"
#include "sluice/weights.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;

/// Null for a weight without elements. Python knows the type of the elements, so these are bytes.
std::shared_ptr<TensorState> StateOf(const std::shared_ptr<Session>& session,
                                     const Weight& weight,
                                     OffLease off_lease) {
  if (weight.tensor == TensorId()) return nullptr;
  const TensorSpec spec{.name = weight.name,
                        .shape = {static_cast<std::int64_t>(weight.bytes.count())},
                        .dtype = DType::kU8,
                        .off_lease = off_lease};
  auto state = std::make_shared<TensorState>(session, weight.tensor, spec);
  session->Add(state);
  return state;
}

/// (name, type, shape, bytes, file, tensor or None) for each weight.
nb::list OpenWeights(const std::shared_ptr<Session>& session,
                     const std::string& path,
                     const std::string& off_lease) {
  const std::shared_ptr<Runtime> runtime = session->runtime();
  const WeightOptions options{.off_lease = Named(off_lease, OffLease::kReadable, "off_lease")};
  const std::vector<Weight> weights =
      ValueOrRaise(WithoutGil([&] { return runtime->OpenWeights(path, options); }));
  std::vector<std::shared_ptr<TensorState>> states;  // all tensors, before anything can raise
  for (const Weight& weight : weights) {
    states.push_back(StateOf(session, weight, options.off_lease));
  }
  nb::list list;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Weight& weight = weights[i];
    list.append(nb::make_tuple(
        weight.name, weight.type, weight.shape, weight.bytes.count(), weight.file, states[i]));
  }
  return list;
}

/// A tensor of the bytes of other tensors, one behind the other, which are only read.
std::shared_ptr<TensorState> JoinTensors(const std::shared_ptr<Session>& session,
                                         const std::string& name,
                                         const std::vector<std::shared_ptr<TensorState>>& tensors,
                                         std::int64_t bytes,
                                         const std::string& off_lease) {
  TensorSpec spec{.name = name,
                  .shape = {bytes},
                  .dtype = DType::kU8,
                  .kind = TensorKind::kParameter,
                  .off_lease = Named(off_lease, OffLease::kReadable, "off_lease")};
  for (const std::shared_ptr<TensorState>& tensor : tensors) {
    tensor->RefuseFreed();
    spec.joined.push_back(tensor->id());
  }
  const std::shared_ptr<Runtime> runtime = session->runtime();
  const TensorId id = ValueOrRaise(WithoutGil([&] { return runtime->CreateTensor(spec); }));
  auto state = std::make_shared<TensorState>(session, id, spec);
  session->Add(state);
  return state;
}

/// A DLPack capsule of the whole tensor outside a lease. REQUIRES: a tensor that is readable there.
nb::capsule LendTensorOffLease(const std::shared_ptr<TensorState>& tensor,
                               const std::vector<std::int64_t>& shape,
                               std::uint8_t code,
                               std::uint8_t bits) {
  tensor->RefuseFreed();
  const std::shared_ptr<Runtime> runtime = tensor->session().runtime();
  const std::span<const std::byte> bytes = ValueOrRaise(runtime->AddressOf(tensor->id()));
  return MakeCapsule(tensor, const_cast<std::byte*>(bytes.data()), shape, {code, bits});
}

}  // namespace

void BindWeights(nb::module_& module) {
  module.def(
      "open_weights", OpenWeights, nb::arg("session"), nb::arg("path"), nb::arg("off_lease"));
  module.def("join_tensors",
             JoinTensors,
             nb::arg("session"),
             nb::arg("name"),
             nb::arg("tensors"),
             nb::arg("bytes"),
             nb::arg("off_lease"));
  module.def("lend_tensor_off_lease",
             LendTensorOffLease,
             nb::arg("tensor"),
             nb::arg("shape"),
             nb::arg("code"),
             nb::arg("bits"));
}

}  // namespace sluice::python
