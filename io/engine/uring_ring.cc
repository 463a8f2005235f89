#include "io/engine/uring_ring.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/strings.h"
#include "io/engine/ring_buffers.h"

namespace sluice::io {
namespace {

constexpr unsigned kOwnThread = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;

/// Features asked for, most first. Kernels before 6.1 lack kOwnThread, those before 5.10 the
/// others.
struct RingKind {
  unsigned flags;
  const char* features;
};
constexpr RingKind kRingKinds[] = {
    {kOwnThread | IORING_SETUP_R_DISABLED, "single issuer, deferred task running"},
    {IORING_SETUP_R_DISABLED, "shared issuer"},
    {0, "shared issuer"},
};

constexpr unsigned kOperations[] = {IORING_OP_READ,
                                    IORING_OP_WRITE,
                                    IORING_OP_READV,
                                    IORING_OP_WRITEV,
                                    IORING_OP_READ_FIXED,
                                    IORING_OP_WRITE_FIXED,
                                    IORING_OP_SYNC_FILE_RANGE,
                                    IORING_OP_FADVISE};

int InitRing(std::uint32_t entries, unsigned flags, io_uring* ring) {
  io_uring_params parameters{};
  parameters.flags = flags;
  return io_uring_queue_init_params(entries, ring, &parameters);
}

/// Registers with the system call. Returns 0 or an errno. Debian 12's liburing.so declares
/// functions for these, but does not export them.
int Register(const io_uring* ring, unsigned what, const void* argument, unsigned count) {
  const long error = syscall(__NR_io_uring_register, ring->ring_fd, what, argument, count);
  return error < 0 ? errno : 0;
}

absl::Status ProbeOperations(io_uring* ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(ring);
  if (probe == nullptr) return absl::UnimplementedError("io_uring cannot be probed");
  bool supported = true;
  for (const unsigned operation : kOperations) {
    supported = supported && io_uring_opcode_supported(probe, static_cast<int>(operation)) != 0;
  }
  io_uring_free_probe(probe);
  if (!supported)
    return absl::UnimplementedError("io_uring lacks reading, writing, sync_file_range or fadvise");
  return absl::OkStatus();
}

bool RegisterFiles(const std::vector<int>& files, io_uring* ring) {
  if (files.empty()) return false;
  return io_uring_register_files(ring, files.data(), static_cast<unsigned>(files.size())) == 0;
}

io_uring_restriction AllowRegister(unsigned what) {
  io_uring_restriction rule{};
  rule.opcode = IORING_RESTRICTION_REGISTER_OP;
  rule.register_op = static_cast<std::uint8_t>(what);
  return rule;
}

/// Restricts the ring to kOperations from now on, whoever gets hold of it.
bool Restrict(io_uring* ring) {
  std::vector<io_uring_restriction> rules;
  for (const unsigned operation : kOperations) {
    io_uring_restriction rule{};
    rule.opcode = IORING_RESTRICTION_SQE_OP;
    rule.sqe_op = static_cast<std::uint8_t>(operation);
    rules.push_back(rule);
  }
  io_uring_restriction flags{};
  flags.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
  flags.sqe_flags = IOSQE_FIXED_FILE;
  rules.push_back(flags);
  rules.push_back(AllowRegister(IORING_REGISTER_BUFFERS_UPDATE));
  rules.push_back(AllowRegister(IORING_UNREGISTER_FILES));
  const auto count = static_cast<unsigned>(rules.size());
  return Register(ring, IORING_REGISTER_RESTRICTIONS, rules.data(), count) == 0;
}

absl::Status Enable(io_uring* ring) {
  const int error = Register(ring, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  return error == 0 ? absl::OkStatus()
                    : base::StatusFromErrno(error, "IORING_REGISTER_ENABLE_RINGS");
}

absl::Status TryToEnter(io_uring* ring) {
  const int error = io_uring_get_events(ring);
  const bool entered = error >= 0 || error == -EINTR;
  return entered ? absl::OkStatus() : base::StatusFromErrno(-error, "io_uring_enter");
}

absl::StatusOr<RingInfo> SetUp(const RingOptions& options, const RingKind& kind, io_uring* ring) {
  SLUICE_RETURN_IF_ERROR(ProbeOperations(ring));
  RingInfo info{.files_registered = RegisterFiles(options.files, ring),
                .buffers_reserved = RingBuffers::Reserve(ring),
                .features = kind.features};
  if (info.files_registered) info.features += ", registered files";
  if ((kind.flags & IORING_SETUP_R_DISABLED) != 0) {
    if (Restrict(ring))
      info.features += ", restricted to reads, writes, sync_file_range and fadvise";
    SLUICE_RETURN_IF_ERROR(Enable(ring));
  }
  SLUICE_RETURN_IF_ERROR(TryToEnter(ring));
  return info;
}

absl::Status Refused(int error_number) {
  // The status has the code of the error, and a longer message.
  return absl::Status(base::StatusFromErrno(error_number, "").code(),
                      base::ToAbsl("io_uring_queue_init: " + DescribeLockingError(error_number)));
}

}  // namespace

absl::StatusOr<RingInfo> CreateRing(const RingOptions& options, io_uring* ring) {
  int error = -EINVAL;
  const RingKind* granted = nullptr;
  for (const RingKind& kind : kRingKinds) {
    granted = &kind;
    error = InitRing(options.entries, kind.flags, ring);
    if (error != -EINVAL) break;
  }
  if (error < 0) return Refused(-error);
  // Queues as small as these are charged to memlock once; a child process must not share them.
  io_uring_ring_dontfork(ring);
  absl::StatusOr<RingInfo> info = SetUp(options, *granted, ring);
  if (!info.ok()) CloseRing(ring);
  return info;
}

void CloseRing(io_uring* ring) {
  io_uring_unregister_files(ring);
  io_uring_queue_exit(ring);
}

}  // namespace sluice::io
