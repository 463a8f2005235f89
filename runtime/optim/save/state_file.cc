#include "runtime/optim/save/state_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

}  // namespace

struct StateFileWriter::Hasher {
  XXH3_state_t state;
};

absl::StatusOr<std::unique_ptr<StateFileWriter>> StateFileWriter::Create(
    const std::string& directory) {
  SLUICE_RETURN_IF_ERROR(CheckDirectory(directory, "make it first"));
  SLUICE_ASSIGN_OR_RETURN(auto file, base::NewFile::Create(PathIn(directory), {.mode = 0600}));
  auto writer = std::unique_ptr<StateFileWriter>(new StateFileWriter(std::move(file)));
  SLUICE_RETURN_IF_ERROR(writer->Write(std::as_bytes(std::span(kMark))));
  return writer;
}

StateFileWriter::StateFileWriter(std::unique_ptr<base::NewFile> file)
    : file_(std::move(file)), hasher_(std::make_unique<Hasher>()) {}

StateFileWriter::~StateFileWriter() = default;

absl::Status StateFileWriter::Write(std::span<const std::byte> bytes) {
  written_ += bytes.size();
  return file_->Write(bytes);
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
  return file_->Commit();
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
