#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace sluice::bench {

/// 2 MiB pages added to those that the system keeps for MAP_HUGETLB (vm.nr_hugepages), and given
/// back at destruction; a process that is killed gives back nothing.
class HugePageReservation {
 public:
  /// `path`: "/proc/sys/vm/nr_hugepages". Errors: PermissionDenied (not root), ResourceExhausted
  /// (memory is short or in pieces; nothing stays reserved), NotFound.
  static absl::StatusOr<std::unique_ptr<HugePageReservation>> Create(const std::string& path,
                                                                     std::uint64_t pages);
  ~HugePageReservation();
  HugePageReservation(const HugePageReservation&) = delete;
  HugePageReservation& operator=(const HugePageReservation&) = delete;

 private:
  HugePageReservation(std::string path, std::uint64_t pages)
      : path_(std::move(path)), pages_(pages) {}

  const std::string path_;
  std::uint64_t pages_;  ///< pages reserved by this object
};

}  // namespace sluice::bench
