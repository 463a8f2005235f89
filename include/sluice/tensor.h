#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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

/// Type of an element.
enum class DType : std::uint8_t { kF32, kF16, kBF16, kI8, kU8, kI32, kI64 };

/// Bytes of one element.
std::uint64_t SizeOf(DType dtype);
/// "f32"; "unknown" for a value that is no enumerator. The functions below do the same.
std::string_view ToString(DType dtype);

/// Purpose of a tensor. Reports group by it, and policies may use it.
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

/// A handle to a tensor of one Runtime. 0 is no tensor. A Runtime uses each value once.
struct TensorId {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(const TensorId&, const TensorId&) = default;
};

/// Use that a lease may make of a tensor. kOverwrite gives up the old content: nothing is paged in,
/// and the bytes are undefined until written. A granted ticket that is given up has overwritten; a
/// ticket that failed has not. kOverwrite acts as kReadWrite on a page that is covered in part.
enum class AccessMode : std::uint8_t { kRead, kReadWrite, kOverwrite };
std::string_view ToString(AccessMode mode);

/// Makes the content of a page again that was lost or cannot be read now. Fills `out` with the
/// tensor's bytes from `range.offset` on, as they were written last. A program that writes a tensor
/// again must return the new content. Runs on worker threads, several at once, and may block.
/// Must not call the Runtime. Tensors that share a segment are reproduced only if each has one.
///
/// Errors: Unavailable if it may succeed later. The Runtime calls again for about a second. The
/// waiting requests then fail with Unavailable, nothing is lost, and a later request calls again.
/// Any other error loses the page, unless its slot can still be read later (Unavailable).
using ReproduceFn = std::function<absl::Status(ByteRange range, std::span<std::byte> out)>;

/// A read-only home of a tensor: the bytes of a regular file from `offset` on. The Runtime never
/// writes to the file. A clean page is dropped and read again; a page that was written gets a slot
/// of its own. The file must not change or shrink while the tensor lives. The Runtime verifies that
/// with `read_only` alone.
struct FileHome {
  std::string path;
  std::uint64_t offset = 0;
  /// Leases only read, so no tier keeps room for the pages, which leave for nothing. Tensors that
  /// are created together lie as in the file then. One read fills a page of several tensors, and an
  /// address modulo page_bytes is that of the file. A file whose length or time of the last
  /// change differs from when the tensor was created is an error (DataLoss), and no wrong bytes.
  bool read_only = false;
  /// XXH3-64 of each 64 KiB of the file, from its first byte on; the last one may be of fewer.
  /// Null: nothing verifies the bytes. Sums need `read_only`, and a page_bytes that is a multiple
  /// of 64 KiB. A page that differs is lost (DataLoss).
  std::shared_ptr<const std::vector<std::int64_t>> block_sums = nullptr;
};

/// Content of a tensor's addresses in dram outside a lease (Runtime::AddressOf). A lease of hbm
/// says nothing of them.
enum class OffLease : std::uint8_t {
  kNone,  ///< undefined: a touch is a SIGSEGV, or meets old bytes. It costs nothing.
  /// Readable, and never writable. The addresses show the newest bytes that a lease has left,
  /// wherever the page is; pages in nvme are slow, and no checksum covers them. A write, and a read
  /// of a page that cannot be shown, is a SIGSEGV or SIGBUS (NameStrayTouches). A page of the
  /// tensor may cost one of the process's mappings (vm.max_map_count).
  kReadable,
};
std::string_view ToString(OffLease off_lease);

/// A tensor to create (Runtime::CreateTensors, which checks it).
struct TensorSpec {
  /// Appears in messages, reports and schedules.
  std::string name = {};
  /// Elements per dimension, row-major, each at least 1; empty is a scalar. A tensor has at most
  /// 1 PiB.
  std::vector<std::int64_t> shape = {};
  DType dtype = DType::kF32;
  TensorKind kind = TensorKind::kOther;
  /// The lowest tier that the tensor's pages may reach. Creation commits each page to it, and fails
  /// with ResourceExhausted if it is full. With kNvme, pages that find nvme full are committed to
  /// dram, and stay there. kNvme is right for a Runtime without nvme, too.
  TierKind lowest = TierKind::kNvme;
  /// Tensors that are created together have the same one. kReadable needs a tensor that may be in
  /// dram.
  OffLease off_lease = OffLease::kNone;
  /// First home of the bytes. None: the tensor reads as zeros.
  std::optional<FileHome> file = std::nullopt;
  /// Tensors whose bytes, one behind the other, are this one's, in place of `file`. They have file
  /// homes and are only read. This tensor is created alone and is only read, too.
  /// Workers put its pages together from the files, through the page cache. A page in no frame
  /// cannot be shown outside a lease. The joined tensors may be freed.
  std::vector<TensorId> joined = {};
  /// Optional. Called for a page with no readable copy.
  ReproduceFn reproduce = {};
};

/// Bytes of the tensor's elements, without padding.
Bytes SizeOf(const TensorSpec& spec);

}  // namespace sluice
