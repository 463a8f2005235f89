#include <liburing.h>

#include <array>

#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tools/doctor/facts.h"
#include "tools/doctor/probe_file.h"

namespace sluice::tools {
namespace {

struct NamedBit {
  unsigned bit;
  const char* name;
};

constexpr std::array kFeatures = {NamedBit{IORING_FEAT_SINGLE_MMAP, "single_mmap"},
                                  NamedBit{IORING_FEAT_NODROP, "nodrop"},
                                  NamedBit{IORING_FEAT_SUBMIT_STABLE, "submit_stable"},
                                  NamedBit{IORING_FEAT_RW_CUR_POS, "rw_cur_pos"},
                                  NamedBit{IORING_FEAT_CUR_PERSONALITY, "cur_personality"},
                                  NamedBit{IORING_FEAT_FAST_POLL, "fast_poll"},
                                  NamedBit{IORING_FEAT_POLL_32BITS, "poll_32bits"},
                                  NamedBit{IORING_FEAT_SQPOLL_NONFIXED, "sqpoll_nonfixed"},
                                  NamedBit{IORING_FEAT_EXT_ARG, "ext_arg"},
                                  NamedBit{IORING_FEAT_NATIVE_WORKERS, "native_workers"},
                                  NamedBit{IORING_FEAT_RSRC_TAGS, "rsrc_tags"},
                                  NamedBit{IORING_FEAT_CQE_SKIP, "cqe_skip"},
                                  NamedBit{IORING_FEAT_LINKED_FILE, "linked_file"}};

constexpr std::array kOperations = {NamedBit{IORING_OP_READ, "read"},
                                    NamedBit{IORING_OP_WRITE, "write"},
                                    NamedBit{IORING_OP_READ_FIXED, "read_fixed"},
                                    NamedBit{IORING_OP_WRITE_FIXED, "write_fixed"},
                                    NamedBit{IORING_OP_FSYNC, "fsync"}};

/// A ring for the length of a probe.
class ProbeRing {
 public:
  explicit ProbeRing(unsigned flags) : error_(-io_uring_queue_init(4, &ring_, flags)) {}
  ~ProbeRing() {
    if (error_ == 0) io_uring_queue_exit(&ring_);
  }
  ProbeRing(const ProbeRing&) = delete;
  ProbeRing& operator=(const ProbeRing&) = delete;

  int error() const { return error_; }
  io_uring* get() { return &ring_; }

 private:
  io_uring ring_{};
  int error_;
};

std::vector<std::string> SupportedOperations(io_uring* ring) {
  std::vector<std::string> names;
  io_uring_probe* probe = io_uring_get_probe_ring(ring);
  if (probe == nullptr) return names;
  for (const NamedBit& operation : kOperations) {
    if (io_uring_opcode_supported(probe, static_cast<int>(operation.bit)) != 0) {
      names.emplace_back(operation.name);
    }
  }
  io_uring_free_probe(probe);
  return names;
}

std::string RefusalOf(const char* call, int error) {
  std::string reason = fmt::format("{}: {}", call, base::ErrnoName(error));
  const std::string disabled = ReadLine("/proc/sys/kernel/io_uring_disabled");
  if (!disabled.empty() && disabled != "0") {
    reason += fmt::format(" (kernel.io_uring_disabled = {})", disabled);
  } else if (error == EPERM || error == ENOSYS) {
    reason += " (a seccomp filter, as containers have, or a kernel without it)";
  } else if (error == ENOMEM) {
    reason += " (the limit of locked memory, ulimit -l, counts a ring without CAP_IPC_LOCK)";
  }
  return reason;
}

}  // namespace

IoUringFacts ReadIoUring() {
  IoUringFacts facts;
  ProbeRing ring(0);
  if (ring.error() != 0) {
    facts.reason = RefusalOf("io_uring_setup", ring.error());
    return facts;
  }
  const int entered = io_uring_get_events(ring.get());
  if (entered < 0 && entered != -EINTR) {
    facts.reason = RefusalOf("io_uring_enter", -entered);
    return facts;
  }
  facts.available = true;
  for (const NamedBit& feature : kFeatures) {
    if ((ring.get()->features & feature.bit) != 0) facts.features.emplace_back(feature.name);
  }
  facts.operations = SupportedOperations(ring.get());
  facts.single_issuer =
      ProbeRing(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN).error() == 0;
  return facts;
}

Section DescribeIoUring(const IoUringFacts& facts) {
  Section section("io_uring");
  section.Add("available", facts.available, facts.available ? "yes" : "no");
  if (!facts.available) {
    section.Add("reason", facts.reason);
    section.Warn("pages move through threads with pread and pwrite instead");
    return section;
  }
  section.Add("single_issuer",
              facts.single_issuer,
              facts.single_issuer ? "yes, with deferred task work" : "no");
  section.Add("operations", facts.operations, fmt::format("{}", fmt::join(facts.operations, ", ")));
  section.Add("features", facts.features, fmt::format("{}", fmt::join(facts.features, ", ")));
  return section;
}

}  // namespace sluice::tools
