#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>
#include <utility>

namespace sluice::python {

enum class CopyDirection { kIn, kOut };

/// The bytes of a Python buffer, exported while this lives. A copy in reads them, and a copy out
/// writes them. REQUIRES: the GIL, in the destructor, too.
class Buffer {
 public:
  /// Raises the error of the object: BufferError if it is not C-contiguous, or read-only for kOut.
  Buffer(const nanobind::object& object, CopyDirection direction) {
    const int flags = PyBUF_C_CONTIGUOUS | (direction == CopyDirection::kOut ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nanobind::python_error();
  }
  ~Buffer() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : view_(std::exchange(other.view_, {})) {}
  Buffer& operator=(Buffer&&) = delete;

  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_ = {};
};

}  // namespace sluice::python
