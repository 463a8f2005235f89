#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "sluice/tier.h"
#include "sluice/units.h"

/// Tensors are what is paged:
///
///   auto weights = runtime->CreateTensor({.name = "weights",
///                                         .shape = {4096, 4096},
///                                         .dtype = sluice::DType::kBF16,
///                                         .kind = sluice::TensorKind::kParameter});
///   auto pinned = runtime->CreateTensor({.name = "norms",
///                                        .shape = {4096},
///                                        .lowest = sluice::TierKind::kDram});  // never on disk

namespace sluice {

enum class DType : std::uint8_t { kF32, kF16, kBF16, kI8, kU8, kI32, kI64 };

/// Bytes of one element.
std::uint64_t SizeOf(DType dtype);
/// "f32"; "unknown" of what is none of the enumerators, as of the enums below.
std::string_view ToString(DType dtype);

/// What a tensor is for; reports group by it, policies may use it.
enum class TensorKind : std::uint8_t {
  kParameter,
  kGradient,
  kOptimizer,
  kActivation,
  kKv,
  kOther
};
inline constexpr int kTensorKindCount = 6;
std::string_view ToString(TensorKind kind);

/// A handle to a tensor of one Runtime; 0 is none. Never reused within a Runtime.
struct TensorId {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(const TensorId&, const TensorId&) = default;
};

/// How a lease may touch a tensor. kOverwrite: the old content is not needed, so nothing is paged
/// in and the bytes are undefined until written: a ticket that is given up after it was granted has
/// overwritten too, one that fails changed nothing. Where it covers only part of a page it acts as
/// kReadWrite on that page.
enum class AccessMode : std::uint8_t { kRead, kReadWrite, kOverwrite };
std::string_view ToString(AccessMode mode);

/// Refills bytes that were lost below, or cannot be read there now: writes `out.size()` bytes of
/// the tensor, from `range.offset` on, and exactly those that it has. Runs on a worker thread and
/// may block; must not call the Runtime.
/// Errors: Unavailable when it may succeed later: it is called some times more (for about a
/// second), then the requests that wait fail with Unavailable, nothing is lost, and a later request
/// calls it again. After any other error the page is lost, unless it is still where it could not be
/// read: then it is read there again, and the requests fail with Unavailable if that fails, too.
using ReproduceFn = std::function<absl::Status(ByteRange range, std::span<std::byte> out)>;

/// A read-only home: `bytes` of a file from `offset` on. Pages with such a home are never written
/// to it, only dropped and read again; a write lease gives the page a store slot instead.
struct FileHome {
  std::string path;
  std::uint64_t offset = 0;
};

struct TensorSpec {
  /// Appears in messages, reports and schedules.
  std::string name = {};
  /// Elements per dimension, row-major; empty is a scalar. All >= 0, product > 0.
  std::vector<std::int64_t> shape = {};
  DType dtype = DType::kF32;
  TensorKind kind = TensorKind::kOther;
  /// The lowest tier its pages may reach. Capacity for each page is reserved at creation: in this
  /// tier as long as it has some, for the other pages in dram, which they then never leave for
  /// nvme. hbm does not count. kNvme is right for runtimes without nvme, too.
  TierKind lowest = TierKind::kNvme;
  /// Where the bytes are at first; none: the tensor is born empty (reads as zeros).
  std::optional<FileHome> file = std::nullopt;
  /// Optional: called for a page whose only copy below cannot be read.
  ReproduceFn reproduce = {};
};

/// Bytes of the tensor's elements, without padding.
Bytes SizeOf(const TensorSpec& spec);

}  // namespace sluice
