#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/store/system/page_buffers.h"
#include "runtime/optim/kernels/kernel.h"

namespace sluice::bench {

/// A run of bytes that an update goes through.
struct ByteStream {
  std::byte* data = nullptr;
  std::size_t element_bytes = 0;
  bool writes = false;  ///< true if the update writes the stream after reading it
};

/// A tensor with all that its update needs, on huge pages, filled with usual numbers. Its scalars
/// make each update change nearly every line that it writes, with bf16 parameters too.
class UpdateData {
 public:
  /// Memory of the data, approximately.
  static std::uint64_t BytesOf(const optim::KernelSpec& spec, std::size_t count);
  /// `count`: a multiple of optim::kStateBlock. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<UpdateData>> Create(const optim::KernelSpec& spec,
                                                            std::size_t count);

  optim::KernelArgs Args(std::size_t begin, std::size_t count) const;
  /// Streams of the update, without the scales of 8-bit states, which are 1/64 of the states.
  const std::vector<ByteStream>& streams() const { return streams_; }
  std::size_t count() const { return count_; }
  bool huge() const;

 private:
  UpdateData(const optim::KernelSpec& spec, std::size_t count) : spec_(spec), count_(count) {}
  absl::Status Allocate();
  absl::Status AddStream(std::size_t element_bytes, bool writes);
  absl::Status AddScales();
  void Fill() const;

  const optim::KernelSpec spec_;
  const std::size_t count_;
  std::vector<std::unique_ptr<PageBuffers>> buffers_;
  std::vector<ByteStream> streams_;  ///< parameters, gradients, states
  std::vector<float*> scales_;
};

}  // namespace sluice::bench
