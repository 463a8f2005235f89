#include "runtime/engine/setup/home_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "io/engine/io_engine.h"
#include "io/file/direct_io.h"
#include "io/safetensors/weight_sums.h"
#include "runtime/engine/views/view_mapping.h"

namespace sluice::engine {
namespace {

std::uint64_t RoundedUp(std::uint64_t bytes) {
  return (bytes + io::kIoAlignment - 1) / io::kIoAlignment * io::kIoAlignment;
}

/// A read that deletes itself once it has told of its end.
class PageRead final : public io::IoRequest {
 public:
  PageRead(std::size_t bytes, absl::AnyInvocable<void(bool)> done)
      : bytes_(bytes), done_(std::move(done)) {}

  void Complete(std::int64_t result) override {
    done_(result >= static_cast<std::int64_t>(bytes_));
    delete this;
  }

 private:
  const std::size_t bytes_;
  absl::AnyInvocable<void(bool)> done_;
};

absl::StatusOr<struct stat> Stat(int descriptor, const std::string& path) {
  struct stat facts {};
  if (fstat(descriptor, &facts) == 0) return facts;
  return base::StatusFromErrno(errno, fmt::format("stat {}", path));
}

}  // namespace

HomeFile::HomeFile(int descriptor, FileHome home)
    : descriptor_(descriptor), home_(std::move(home)) {}

HomeFile::~HomeFile() { close(descriptor_); }

absl::StatusOr<std::shared_ptr<HomeFile>> HomeFile::Open(const FileHome& home,
                                                         std::uint64_t bytes,
                                                         Use direct,
                                                         HomeEngine& engine) {
  // The open does not block, as a named pipe without a writer would hold it up for ever.
  const int descriptor = open(home.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return base::StatusFromErrno(errno, fmt::format("open {}", home.path));
  std::shared_ptr<HomeFile> file(new HomeFile(descriptor, home));
  SLUICE_RETURN_IF_ERROR(file->NoteFacts(bytes));
  SLUICE_RETURN_IF_ERROR(file->CheckSumCount());
  if (home.read_only) SLUICE_RETURN_IF_ERROR(file->OpenDirect(direct, engine));
  return file;
}

absl::Status HomeFile::OpenDirect(Use direct, HomeEngine& engine) {
  if (direct == Use::kOff) {
    buffered_reason_ = kOffByOption;
    io::TurnOffReadAhead(descriptor_);
    return absl::OkStatus();
  }
  io::FileDescriptor opened(open(home_.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.valid()) return base::StatusFromErrno(errno, fmt::format("open {}", home_.path));
  buffered_reason_ = io::TurnOnDirectReads(opened.get());
  if (buffered_reason_.empty()) {
    SLUICE_ASSIGN_OR_RETURN(engine_, engine.Get());
    direct_ = std::move(opened);
    file_ = {.fd = direct_.get(), .bytes = RoundedUp(file_bytes_)};
    return absl::OkStatus();
  }
  io::TurnOffReadAhead(descriptor_);
  if (direct != Use::kRequire) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: O_DIRECT is required but refused: {}; io.direct = \"auto\" allows buffered "
                  "reads",
                  home_.path,
                  buffered_reason_));
}

absl::Status HomeFile::NoteFacts(std::uint64_t bytes) {
  SLUICE_ASSIGN_OR_RETURN(const struct stat facts, Stat(descriptor_, home_.path));
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{} is not a regular file", home_.path));
  }
  file_bytes_ = static_cast<std::uint64_t>(facts.st_size);
  changed_ = facts.st_mtim;
  if (home_.offset <= file_bytes_ && bytes <= file_bytes_ - home_.offset) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} has {} bytes; {} from offset {} are asked for",
                                                home_.path,
                                                file_bytes_,
                                                bytes,
                                                home_.offset));
}

/// The check follows a read: bytes that were read before a change are those of before.
absl::Status HomeFile::CheckUnchanged() const {
  if (!home_.read_only) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const struct stat facts, Stat(descriptor_, home_.path));
  const bool same = static_cast<std::uint64_t>(facts.st_size) == file_bytes_ &&
                    facts.st_mtim.tv_sec == changed_.tv_sec &&
                    facts.st_mtim.tv_nsec == changed_.tv_nsec;
  if (same) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "{} has changed since its tensors were created: another program writes it", home_.path));
}

absl::Status HomeFile::Read(std::uint64_t offset, std::span<std::byte> out) const {
  std::uint64_t done = 0;
  while (done < out.size()) {
    const std::uint64_t at = home_.offset + offset + done;
    const ssize_t count =
        pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return base::StatusFromErrno(errno, fmt::format("read {} at offset {}", home_.path, at));
    }
    if (count == 0) {
      return absl::DataLossError(fmt::format("{} ends at offset {}", home_.path, at));
    }
    done += static_cast<std::uint64_t>(count);
  }
  return CheckUnchanged();
}

absl::Status HomeFile::CheckSumCount() const {
  if (home_.block_sums == nullptr) return absl::OkStatus();
  const std::uint64_t blocks = (file_bytes_ + io::kSumBlockBytes - 1) / io::kSumBlockBytes;
  if (home_.block_sums->size() == blocks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} has {} blocks of 64 KiB, and checksums of {}: it has changed since they were "
                  "made",
                  home_.path,
                  blocks,
                  home_.block_sums->size()));
}

absl::Status HomeFile::Verify(std::uint64_t at, std::span<const std::byte> bytes) const {
  if (home_.block_sums == nullptr) return absl::OkStatus();
  const std::int64_t block = io::FirstDifference(bytes, at / io::kSumBlockBytes, *home_.block_sums);
  if (block < 0) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{} differs from its checksum in the 64 KiB from byte {} on",
                  home_.path,
                  static_cast<std::uint64_t>(block) * io::kSumBlockBytes));
}

std::size_t HomeFile::BytesOf(std::uint64_t offset, std::span<std::byte> page) const {
  return std::min<std::uint64_t>(page.size(), BytesFrom(offset));
}

void HomeFile::StartRead(std::uint64_t offset,
                         std::span<std::byte> page,
                         absl::AnyInvocable<void(bool)> done) const {
  const std::size_t bytes = BytesOf(offset, page);
  auto* const read = new PageRead(bytes, std::move(done));
  read->command = {.direction = io::IoDirection::kRead,
                   .file = &file_,
                   .offset = home_.offset + offset,
                   .data = page.data(),
                   .bytes = RoundedUp(bytes)};
  if (!engine_->Submit(read).ok()) read->Complete(0);
}

absl::Status HomeFile::FinishRead(std::uint64_t offset, std::span<std::byte> page) const {
  const std::size_t bytes = BytesOf(offset, page);
  std::memset(page.data() + bytes, 0, page.size() - bytes);
  SLUICE_RETURN_IF_ERROR(CheckUnchanged());
  return Verify(home_.offset + offset, page.first(bytes));
}

absl::Status HomeFile::ReadPage(std::uint64_t offset, std::span<std::byte> page) const {
  const std::size_t bytes = BytesOf(offset, page);
  SLUICE_RETURN_IF_ERROR(Read(offset, page.first(bytes)));
  Advise(offset, bytes, POSIX_FADV_DONTNEED);
  return FinishRead(offset, page);
}

absl::Status HomeFile::ReadPart(std::uint64_t offset, std::span<std::byte> out) const {
  Advise(offset, out.size(), POSIX_FADV_WILLNEED);  // the kernel reads with many requests at a time
  absl::Status status = home_.block_sums == nullptr ? Read(offset, out) : ReadVerified(offset, out);
  Advise(offset, out.size(), POSIX_FADV_DONTNEED);
  return status;
}

absl::Status HomeFile::ReadVerified(std::uint64_t offset, std::span<std::byte> out) const {
  const std::uint64_t begin = home_.offset + offset;
  const std::uint64_t first = begin / io::kSumBlockBytes * io::kSumBlockBytes;
  const std::uint64_t last = (begin + out.size() - 1) / io::kSumBlockBytes + 1;
  std::vector<std::byte> blocks(std::min(last * io::kSumBlockBytes, file_bytes_) - first);
  SLUICE_RETURN_IF_ERROR(Read(first - home_.offset, blocks));
  SLUICE_RETURN_IF_ERROR(Verify(first, blocks));
  std::memcpy(out.data(), blocks.data() + (begin - first), out.size());
  return absl::OkStatus();
}

/// An advice: where dropping is refused, pages stay in the cache until the kernel needs the memory.
void HomeFile::Advise(std::uint64_t offset, std::uint64_t bytes, int advice) const {
  const std::uint64_t begin = (home_.offset + offset) / io::kIoAlignment * io::kIoAlignment;
  const std::uint64_t end = RoundedUp(home_.offset + offset + bytes);
  (void)posix_fadvise(
      descriptor_, static_cast<off_t>(begin), static_cast<off_t>(end - begin), advice);
}

absl::Status HomeFile::MapForReading(std::span<std::byte> at, std::uint64_t offset) const {
  return base::Annotate(MapFile(at, descriptor_, home_.offset + offset), home_.path);
}

}  // namespace sluice::engine
