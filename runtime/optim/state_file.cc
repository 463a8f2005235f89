#include "runtime/optim/state_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::optim {
namespace {

constexpr char kMark[16] = {'S', 'L', 'U', 'I', 'C', 'E', '-', 'O', 'P', 'T', 'I', 'M', 0, 0, 0, 1};
constexpr char kEnd[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'N', 'D'};
constexpr std::size_t kVerifyBytes = std::size_t{1} << 20;
constexpr std::string_view kWhatToLoad = "name one that has a save";

struct Trailer {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
  char end[8] = {};
};
static_assert(sizeof(Trailer) == 32);

absl::Status Failed(const char* call, const std::string& path) {
  return base::StatusFromErrno(errno, fmt::format("{} {}", call, path));
}

template <typename... Args>
absl::Status Error(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return absl::Status(code, base::ToAbsl(fmt::format(format, std::forward<Args>(args)...)));
}

/// Errors: InvalidArgument, NotFound, with `fix` where it is not there; those of stat(2).
absl::Status CheckDirectory(const std::string& directory, std::string_view fix) {
  if (directory.empty()) {
    return Error(absl::StatusCode::kInvalidArgument,
                 "the name of the save's directory is empty; \".\" is the current one");
  }
  struct stat info {};
  if (stat(directory.c_str(), &info) != 0) {
    if (errno != ENOENT) return Failed("stat", directory);
    return Error(absl::StatusCode::kNotFound, "there is no directory {}; {}", directory, fix);
  }
  if (S_ISDIR(info.st_mode)) return absl::OkStatus();
  return Error(absl::StatusCode::kInvalidArgument, "{} is no directory; name one", directory);
}

std::string PathIn(const std::string& directory) {
  return fmt::format("{}/{}", directory, kStateFileName);
}

// Asked before write, which would raise SIGXFSZ in the caller's thread.
absl::Status CheckFileSizeLimit(const std::string& path, std::uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(base::ToAbsl(fmt::format(
      "write {}: the limit of file sizes is {} bytes (see ulimit -f)", path, limit.rlim_cur)));
}

absl::Status SyncDirectory(const std::string& directory) {
  const int descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return Failed("open", directory);
  absl::Status status = fsync(descriptor) == 0 ? absl::OkStatus() : Failed("fsync", directory);
  close(descriptor);  // only read: nothing that it could report is lost
  return status;
}

absl::Status NoFileIn(const std::string& directory) {
  if (errno == EOPNOTSUPP || errno == EISDIR) {
    return Error(absl::StatusCode::kInvalidArgument,
                 "no file without a name can be made in {}: its file system has none; use one such "
                 "as ext4, xfs, btrfs or tmpfs",
                 directory);
  }
  return Failed("open a file without a name in", directory);
}

}  // namespace

struct StateFileWriter::Hasher {
  XXH3_state_t state;
};

absl::StatusOr<std::unique_ptr<StateFileWriter>> StateFileWriter::Create(
    const std::string& directory) {
  SLUICE_RETURN_IF_ERROR(CheckDirectory(directory, "make it first"));
  const int descriptor = open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0) return NoFileIn(directory);
  auto writer = std::unique_ptr<StateFileWriter>(new StateFileWriter(directory, descriptor));
  SLUICE_RETURN_IF_ERROR(writer->Write(std::as_bytes(std::span(kMark))));
  return writer;
}

StateFileWriter::StateFileWriter(std::string directory, int descriptor)
    : directory_(std::move(directory)),
      descriptor_(descriptor),
      hasher_(std::make_unique<Hasher>()) {}

StateFileWriter::~StateFileWriter() {
  close(descriptor_);  // what matters has been synced, or has no name
}

absl::Status StateFileWriter::Write(std::span<const std::byte> bytes) {
  SLUICE_RETURN_IF_ERROR(CheckFileSizeLimit(PathIn(directory_), written_ + bytes.size()));
  while (!bytes.empty()) {
    const ssize_t done = write(descriptor_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return Failed("write", PathIn(directory_));
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    written_ += static_cast<std::uint64_t>(done);
  }
  return absl::OkStatus();
}

void StateFileWriter::BeginRecord() {
  record_begin_ = written_;
  XXH3_64bits_reset(&hasher_->state);
}

absl::Status StateFileWriter::Append(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&hasher_->state, bytes.data(), bytes.size());
  return Write(bytes);
}

StateRecord StateFileWriter::EndRecord() {
  return {.offset = record_begin_,
          .bytes = written_ - record_begin_,
          .hash = XXH3_64bits_digest(&hasher_->state)};
}

absl::Status StateFileWriter::Commit(const std::string& text) {
  Trailer trailer{
      .offset = written_, .bytes = text.size(), .hash = XXH3_64bits(text.data(), text.size())};
  std::memcpy(trailer.end, kEnd, sizeof(kEnd));
  SLUICE_RETURN_IF_ERROR(Write(std::as_bytes(std::span(text))));
  SLUICE_RETURN_IF_ERROR(Write(std::as_bytes(std::span(&trailer, 1))));
  if (fsync(descriptor_) != 0) return Failed("fsync", PathIn(directory_));
  return GiveName();
}

/// linkat(2) replaces nothing and rename(2) needs a name, so the file has another one in between.
absl::Status StateFileWriter::GiveName() {
  const std::string nameless = fmt::format("/proc/self/fd/{}", descriptor_);
  const std::string path = PathIn(directory_);
  const std::string between = fmt::format("{}.{}.tmp", path, getpid());
  unlink(between.c_str());  // of a process with this number that was killed here, if there is one
  if (linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, between.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return Failed("link", between);
  }
  if (rename(between.c_str(), path.c_str()) != 0) {
    absl::Status status =
        Failed("rename", errno == EISDIR ? path + " (a directory; move it away)" : path);
    unlink(between.c_str());  // as well as can be: the error that matters is the other one
    return status;
  }
  return SyncDirectory(directory_);
}

absl::StatusOr<std::unique_ptr<StateFileReader>> StateFileReader::Open(
    const std::string& directory) {
  SLUICE_RETURN_IF_ERROR(CheckDirectory(directory, kWhatToLoad));
  const std::string path = PathIn(directory);
  // Not to wait for the other end of what is no file; one is not affected.
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) {
    return Error(absl::StatusCode::kNotFound,
                 "there is no save ({}) in {}; {}",
                 kStateFileName,
                 directory,
                 kWhatToLoad);
  }
  if (descriptor < 0) return Failed("open", path);
  auto reader = std::unique_ptr<StateFileReader>(new StateFileReader(path, descriptor));
  SLUICE_RETURN_IF_ERROR(reader->ReadText());
  return reader;
}

StateFileReader::StateFileReader(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

StateFileReader::~StateFileReader() {
  close(descriptor_);  // only read
}

absl::Status StateFileReader::Damaged(const std::string& what) const {
  return absl::DataLossError(base::ToAbsl(fmt::format("{}: {}; use another save", path_, what)));
}

absl::Status StateFileReader::Read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t done = pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return Failed("read", path_);
    if (done == 0) return Damaged(fmt::format("it ends at byte {}", offset));
    out = out.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
  return absl::OkStatus();
}

absl::Status StateFileReader::ReadText() {
  struct stat info {};
  if (fstat(descriptor_, &info) != 0) return Failed("stat", path_);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(base::ToAbsl(fmt::format("{} is no regular file", path_)));
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  char mark[sizeof(kMark)];
  Trailer trailer;
  if (size < sizeof(mark) + sizeof(trailer)) return Damaged("it is cut short, or no save");
  SLUICE_RETURN_IF_ERROR(Read(0, std::as_writable_bytes(std::span(mark))));
  if (std::memcmp(mark, kMark, sizeof(mark)) != 0) return Damaged("it is no optimizer's save");
  const std::uint64_t end = size - sizeof(trailer);
  SLUICE_RETURN_IF_ERROR(Read(end, std::as_writable_bytes(std::span(&trailer, 1))));
  if (std::memcmp(trailer.end, kEnd, sizeof(kEnd)) != 0) return Damaged("its end is missing");
  if (trailer.offset > end || trailer.bytes != end - trailer.offset ||
      trailer.offset < sizeof(mark)) {
    return Damaged("its last bytes contradict its size");
  }
  text_.resize(trailer.bytes);
  SLUICE_RETURN_IF_ERROR(Read(trailer.offset, std::as_writable_bytes(std::span(text_))));
  if (XXH3_64bits(text_.data(), text_.size()) != trailer.hash) {
    return Damaged("the checksum of its description is wrong");
  }
  records_end_ = trailer.offset;
  return absl::OkStatus();
}

absl::Status StateFileReader::Verify(const StateRecord& record, const std::string& name) const {
  auto state = std::make_unique<XXH3_state_t>();
  XXH3_64bits_reset(state.get());
  std::vector<std::byte> buffer(std::min<std::uint64_t>(record.bytes, kVerifyBytes));
  for (std::uint64_t done = 0; done < record.bytes;) {
    const std::uint64_t size = std::min<std::uint64_t>(record.bytes - done, buffer.size());
    const std::span<std::byte> piece = std::span(buffer).first(size);
    SLUICE_RETURN_IF_ERROR(Read(record.offset + done, piece));
    XXH3_64bits_update(state.get(), piece.data(), piece.size());
    done += size;
  }
  if (XXH3_64bits_digest(state.get()) == record.hash) return absl::OkStatus();
  return Damaged(fmt::format("the checksum of {} (bytes {} to {}) is wrong",
                             name,
                             record.offset,
                             record.offset + record.bytes));
}

}  // namespace sluice::optim
