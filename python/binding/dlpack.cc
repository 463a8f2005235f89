#include "python/binding/dlpack.h"

#include <utility>

namespace sluice::python {
namespace {

// C structures of DLPack, version 0.8 and earlier: the content of a "dltensor" capsule.
constexpr std::int32_t kCpu = 1;

struct DLDevice {
  std::int32_t type = kCpu;
  std::int32_t id = 0;
};
struct DLDataType {
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;
};
struct DLTensor {
  void* data = nullptr;
  DLDevice device = {};
  std::int32_t ndim = 0;
  DLDataType dtype = {};
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  ///< null: C-contiguous
  std::uint64_t byte_offset = 0;
};
struct DLManagedTensor {
  DLTensor tensor = {};
  void* context = nullptr;
  void (*deleter)(DLManagedTensor*) = nullptr;
};

/// A lent tensor with the arrays that it points to.
struct Lent {
  Lent(std::shared_ptr<TensorState> owner, const std::vector<std::int64_t>& extents)
      : tensor(std::move(owner)), shape(extents) {
    ++tensor->storages;
  }
  ~Lent() { --tensor->storages; }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  const std::shared_ptr<TensorState> tensor;
  std::vector<std::int64_t> shape;
  DLManagedTensor managed;
};

void Delete(DLManagedTensor* managed) { delete static_cast<Lent*>(managed->context); }

void DeleteUntaken(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;  // taken: it has another name
  auto* const managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

}  // namespace

nanobind::capsule MakeCapsule(std::shared_ptr<TensorState> tensor,
                              std::byte* bytes,
                              const std::vector<std::int64_t>& shape,
                              DlpackType type) {
  auto lent = std::make_unique<Lent>(std::move(tensor), shape);
  lent->managed.tensor = {.data = bytes,
                          .ndim = static_cast<std::int32_t>(shape.size()),
                          .dtype = {.code = type.code, .bits = type.bits},
                          .shape = lent->shape.data()};
  lent->managed.context = lent.get();
  lent->managed.deleter = Delete;
  PyObject* const capsule = PyCapsule_New(&lent->managed, "dltensor", DeleteUntaken);
  if (capsule == nullptr) throw nanobind::python_error();
  (void)lent.release();
  return nanobind::steal<nanobind::capsule>(capsule);
}

}  // namespace sluice::python
