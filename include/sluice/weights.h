#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/tensor.h"
#include "sluice/units.h"
#include "sluice/use.h"

/// Weights of a checkpoint, read from its safetensors files as they were published:
///
///   auto weights = runtime->OpenWeights("models/llama");  // a directory, an index or one file
///   for (const sluice::Weight& weight : *weights) {
///     sluice::Op op = runtime->BeginOp({.name = weight.name});
///     auto lease = op.Acquire({.tensor = weight.tensor, .mode = sluice::AccessMode::kRead});
///     if (lease.ok()) Use(weight.name, lease->As<std::byte>());
///   }
///
/// Nothing is converted, copied or written, and no tier keeps room for them: a budget of some pages
/// serves a checkpoint of any size.

namespace sluice {

/// A tensor of a checkpoint.
struct Weight {
  std::string name;
  /// 0 where it has no elements. Its TensorSpec has shape and type, or, where DType does not know
  /// the type, as many bytes of kU8. Runtime::Free frees it as any other.
  TensorId tensor;
  std::vector<std::int64_t> shape;  ///< elements per dimension
  std::string type;                 ///< name in the format: "BF16", "F8_E4M3", "F4"
  Bytes bytes = Bytes();
  std::string file;  ///< path of the file that has it
};

struct WeightOptions {
  /// Content of the addresses outside a lease; with kReadable it is the file itself.
  OffLease off_lease = OffLease::kNone;
  /// Whether each page is verified by the checksums that `sluice weights sum` has written beside
  /// the checkpoint (PATH.sums): kAuto where they are there. Views outside a lease are not.
  Use sums = Use::kAuto;
};

}  // namespace sluice
