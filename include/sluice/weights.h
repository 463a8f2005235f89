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
/// The Runtime converts, copies and writes nothing, and no tier keeps room for weights. A budget of
/// some pages serves a checkpoint of any size.

namespace sluice {

/// A tensor of a checkpoint.
struct Weight {
  std::string name;
  /// Tensor of the weight; 0 if it has no elements. The TensorSpec has the shape and type. A type
  /// that DType does not know becomes as many bytes of kU8. Runtime::Free frees it as any other.
  TensorId tensor;
  std::vector<std::int64_t> shape;  ///< elements per dimension
  std::string type;                 ///< name in the format: "BF16", "F8_E4M3", "F4"
  Bytes bytes = Bytes();
  std::string file;  ///< path of the file that has it
};

/// Options of Runtime::OpenWeights.
struct WeightOptions {
  /// Content of the addresses outside a lease; with kReadable it is the file itself.
  OffLease off_lease = OffLease::kNone;
  /// Checksums that `sluice weights sum` has written beside the checkpoint (PATH.sums) verify each
  /// page; kAuto uses them where they are there. Views outside a lease are not verified. With
  /// kRequire, OpenWeights fails with NotFound where they are not there.
  Use sums = Use::kAuto;
};

}  // namespace sluice
