#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace sluice::bench {

/// 2 MiB pages added to the system's reserve for MAP_HUGETLB (vm.nr_hugepages). The destructor
/// gives them back; a killed process does not.
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
