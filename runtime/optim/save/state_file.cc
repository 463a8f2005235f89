#include "runtime/optim/save/state_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/optim/save/block_sum.h"

namespace sluice::optim {
namespace {

constexpr char kEnd[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'N', 'D'};
/// Bytes that a check reads at a time: a multiple of every size of summed blocks.
constexpr std::size_t kVerifyBytes = std::size_t{1} << 20;
constexpr std::string_view kWhatToLoad = "name one that has a save";

absl::Status Failed(const char* call, const std::string& path) {
  return base::StatusFromErrno(errno, fmt::format("{} {}", call, path));
}

template <typename... Args>
absl::Status Error(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return absl::Status(code, base::ToAbsl(fmt::format(format, std::forward<Args>(args)...)));
}

/// The last by name of the directories in `directory` that have a save; empty: none has.
std::string LastSaveBelow(const std::string& directory) {
  std::string last;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    std::error_code unreadable;
    const bool saved = std::filesystem::is_regular_file(StateFilePath(path), unreadable);
    if (saved && path > last) last = path;
  }
  return last;
}

}  // namespace

StateFileTrailer TrailerOf(std::uint64_t offset, const std::string& text) {
  StateFileTrailer trailer{
      .offset = offset, .bytes = text.size(), .hash = XXH3_64bits(text.data(), text.size())};
  std::memcpy(trailer.end, kEnd, sizeof(kEnd));
  return trailer;
}

std::string StateFilePath(const std::string& directory) {
  return fmt::format("{}/{}", directory, kStateFileName);
}

absl::Status CheckSaveDirectory(const std::string& directory, std::string_view fix) {
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

absl::StatusOr<std::unique_ptr<StateFileReader>> StateFileReader::Open(
    const std::string& directory) {
  SLUICE_RETURN_IF_ERROR(CheckSaveDirectory(directory, kWhatToLoad));
  const std::string path = StateFilePath(directory);
  // O_NONBLOCK: open does not wait for the other end of a pipe. It changes nothing for a file.
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) {
    const std::string below = LastSaveBelow(directory);
    return Error(absl::StatusCode::kNotFound,
                 "there is no save ({}) in {}; {}{}",
                 kStateFileName,
                 directory,
                 kWhatToLoad,
                 below.empty() ? "" : ", such as " + below);
  }
  if (descriptor < 0) return Failed("open", path);
  auto reader = std::unique_ptr<StateFileReader>(new StateFileReader(path, descriptor));
  SLUICE_RETURN_IF_ERROR(reader->ReadText());
  return reader;
}

StateFileReader::StateFileReader(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

StateFileReader::~StateFileReader() {
  close(descriptor_);  // the descriptor was only read from
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

absl::Status StateFileReader::ReadMark() {
  char mark[sizeof(kStateFileMark)];
  SLUICE_RETURN_IF_ERROR(Read(0, std::as_writable_bytes(std::span(mark))));
  const char format = std::exchange(mark[sizeof(mark) - 1], kStateFileMark[sizeof(mark) - 1]);
  if (std::memcmp(mark, kStateFileMark, sizeof(mark)) != 0 || format < 1) {
    return Damaged("it is no optimizer's save");
  }
  if (format > 2) return Damaged(fmt::format("its format {} is not known here", int{format}));
  has_sums_ = format == 2;
  return absl::OkStatus();
}

absl::Status StateFileReader::ReadText() {
  struct stat info {};
  if (fstat(descriptor_, &info) != 0) return Failed("stat", path_);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(base::ToAbsl(fmt::format("{} is no regular file", path_)));
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  StateFileTrailer trailer;
  if (size < sizeof(kStateFileMark) + sizeof(trailer)) {
    return Damaged("it is cut short, or no save");
  }
  SLUICE_RETURN_IF_ERROR(ReadMark());
  const std::uint64_t end = size - sizeof(trailer);
  SLUICE_RETURN_IF_ERROR(Read(end, std::as_writable_bytes(std::span(&trailer, 1))));
  if (std::memcmp(trailer.end, kEnd, sizeof(kEnd)) != 0) return Damaged("its end is missing");
  if (trailer.offset > end || trailer.bytes != end - trailer.offset ||
      trailer.offset < sizeof(kStateFileMark)) {
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

absl::Status StateFileReader::ForEachPiece(const StateRecord& record, const VisitFn& visit) const {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(record.bytes, kVerifyBytes));
  for (std::uint64_t done = 0; done < record.bytes;) {
    const std::uint64_t size = std::min<std::uint64_t>(record.bytes - done, buffer.size());
    const std::span<std::byte> piece = std::span(buffer).first(size);
    SLUICE_RETURN_IF_ERROR(Read(record.offset + done, piece));
    visit(done, piece);
    done += size;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::uint64_t> StateFileReader::HashOf(const StateRecord& record) const {
  auto state = std::make_unique<XXH3_state_t>();
  XXH3_64bits_reset(state.get());
  SLUICE_RETURN_IF_ERROR(ForEachPiece(record, [&](std::uint64_t, std::span<std::byte> piece) {
    XXH3_64bits_update(state.get(), piece.data(), piece.size());
  }));
  return XXH3_64bits_digest(state.get());
}

absl::StatusOr<std::uint64_t> StateFileReader::SumOf(const StateRecord& record,
                                                     std::uint64_t block_bytes) const {
  std::uint64_t sum = 0;
  SLUICE_RETURN_IF_ERROR(ForEachPiece(record, [&](std::uint64_t offset, auto piece) {
    sum += SumOfBlocks(block_bytes, offset, std::span(&piece, 1));
  }));
  return sum;
}

absl::Status StateFileReader::Verify(const StateRecord& record,
                                     std::uint64_t block_bytes,
                                     const std::string& name) const {
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t found,
                          has_sums_ ? SumOf(record, block_bytes) : HashOf(record));
  if (found == record.hash) return absl::OkStatus();
  return Damaged(fmt::format("the checksum of {} (bytes {} to {}) is wrong",
                             name,
                             record.offset,
                             record.offset + record.bytes));
}

}  // namespace sluice::optim
