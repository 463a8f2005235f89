#include "python/binding/held_lease.h"

#include <utility>

#include "python/binding/dlpack.h"
#include "python/binding/status.h"

namespace sluice::python {

LentMemory::LentMemory(std::shared_ptr<TensorState> tensor,
                       std::byte* bytes,
                       std::uint64_t size,
                       bool writable)
    : tensor_(std::move(tensor)), bytes_(bytes), size_(size), writable_(writable) {
  ++tensor_->arrays;
}

LentMemory::~LentMemory() { --tensor_->arrays; }

int LentMemory::GetBuffer(PyObject* self, Py_buffer* view, int flags) const {
  const auto size = static_cast<Py_ssize_t>(size_);
  return PyBuffer_FillInfo(view, self, bytes_, size, writable_ ? 0 : 1, flags);
}

HeldLease::HeldLease(std::shared_ptr<TensorState> tensor, Lease lease, ByteRange range)
    : tensor_(std::move(tensor)),
      range_(range),
      mode_(lease.mode()),
      tier_(lease.tier()),
      bytes_(lease.Contiguous().data()),
      lease_(std::move(lease)) {
  tensor_->session().Add(this, {tensor_.get(), range_, mode_});
}

HeldLease::~HeldLease() { Release(); }

void HeldLease::Release() {
  tensor_->session().Remove(this);
  const std::lock_guard lock(mutex_);
  lease_.Release();
}

Lease HeldLease::Take() {
  tensor_->session().Remove(this);
  const std::lock_guard lock(mutex_);
  return std::move(lease_);
}

void HeldLease::Check() const {
  tensor_->session().RefuseChild();
  std::string why = tensor_->session().closed() ? "the runtime is closed" : "";
  {
    const std::lock_guard lock(mutex_);
    if (!lease_.valid()) why = "the lease has ended: use the view inside its with block";
  }
  if (why.empty()) return;
  Raise(absl::FailedPreconditionError("view of '" + tensor_->name() + "': " + why));
}

std::unique_ptr<LentMemory> HeldLease::Lend() const {
  Check();
  return std::make_unique<LentMemory>(tensor_, bytes_, range_.bytes, writable());
}

nanobind::capsule HeldLease::LendTensor(const std::vector<std::int64_t>& shape,
                                        DlpackType type) const {
  Check();
  return MakeCapsule(tensor_, tensor_bytes(), shape, type);
}

}  // namespace sluice::python
