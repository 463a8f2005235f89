#include "bench/store/system/huge_page_reservation.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/file/file_descriptor.h"

namespace sluice::bench {
namespace {

absl::StatusOr<std::uint64_t> ReadCount(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t count = 0;
  if (file >> count) return count;
  return absl::NotFoundError(base::ToAbsl(fmt::format("{} cannot be read", path)));
}

absl::Status WriteCount(const std::string& path, std::uint64_t count) {
  const io::FileDescriptor file(open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!file.valid()) return base::StatusFromErrno(errno, "open " + path);
  const std::string text = fmt::format("{}\n", count);
  if (write(file.get(), text.data(), text.size()) < 0) {
    return base::StatusFromErrno(errno, "write " + path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<HugePageReservation>> HugePageReservation::Create(
    const std::string& path, std::uint64_t pages) {
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t before, ReadCount(path));
  SLUICE_RETURN_IF_ERROR(WriteCount(path, before + pages));
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t after, ReadCount(path));
  const std::uint64_t got = after > before ? after - before : 0;
  // The object owns the pages that were added, so that they go back even if they are too few.
  auto reservation = std::unique_ptr<HugePageReservation>(new HugePageReservation(path, got));
  if (got >= pages) return reservation;
  return absl::ResourceExhaustedError(base::ToAbsl(
      fmt::format("{} of {} huge pages of 2 MiB could be reserved ({})", got, pages, path)));
}

HugePageReservation::~HugePageReservation() {
  if (pages_ == 0) return;
  // Other programs may have changed the count meanwhile.
  const absl::StatusOr<std::uint64_t> now = ReadCount(path_);
  if (now.ok()) WriteCount(path_, *now > pages_ ? *now - pages_ : 0).IgnoreError();
}

}  // namespace sluice::bench
