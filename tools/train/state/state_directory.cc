#include "tools/train/state/state_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/optim/save/state_file.h"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSavePrefix = "step-";

/// The step of a name that SaveName makes; nothing of any other.
std::optional<int> StepOf(const std::string& name) {
  int step = 0;
  if (!name.starts_with(kSavePrefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  if (std::from_chars(name.data() + kSavePrefix.size(), end, step).ec != std::errc()) {
    return std::nullopt;
  }
  return SaveName(step) == name ? std::optional<int>(step) : std::nullopt;
}

/// A name that base::NewFile makes, of 16 hexadecimal digits.
bool IsPartialName(std::string_view name) {
  constexpr std::string_view kBegin = ".sluice-";
  constexpr std::string_view kEnd = ".partial";
  if (name.size() != kBegin.size() + 16 + kEnd.size()) return false;
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return false;
  return name.substr(kBegin.size(), 16).find_first_not_of("0123456789abcdef") ==
         std::string_view::npos;
}

std::string FileOf(const std::string& directory) {
  return fmt::format("{}/{}", directory, optim::kStateFileName);
}

bool HasSave(const std::string& directory) {
  std::error_code error;
  return fs::exists(fs::symlink_status(FileOf(directory), error));
}

/// The directories in `path` that are named by step, the newest first.
absl::StatusOr<std::vector<FoundSave>> ListNamed(const std::string& path) {
  std::vector<FoundSave> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(path, error);
       !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::optional<int> step = StepOf(entry->path().filename().string());
    std::error_code vanished;
    if (!step || !fs::is_directory(entry->symlink_status(vanished))) continue;
    found.push_back({.directory = entry->path().string(), .step = *step});
  }
  if (error) return base::StatusFromErrno(error.value(), "list " + path);
  std::sort(found.begin(), found.end(), [](const FoundSave& a, const FoundSave& b) {
    return a.step > b.step;
  });
  return found;
}

std::string ParentOf(const std::string& path) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const std::string parent = fs::path(trimmed).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

int StateCalls::MakeDirectory(const std::string& path, mode_t mode) {
  return mkdir(path.c_str(), mode);
}

int StateCalls::RemoveDirectory(const std::string& path) { return rmdir(path.c_str()); }

std::string SaveName(int step) { return fmt::format("{}{:07}", kSavePrefix, step); }

absl::StatusOr<std::vector<FoundSave>> ListSaves(const std::string& directory) {
  if (HasSave(directory)) return std::vector<FoundSave>{{.directory = directory, .step = -1}};
  SLUICE_ASSIGN_OR_RETURN(std::vector<FoundSave> saves, ListNamed(directory));
  std::erase_if(saves, [](const FoundSave& save) { return !HasSave(save.directory); });
  return saves;
}

StateDirectory::StateDirectory(const StateDirectoryOptions& options)
    : path_(options.path),
      calls_(options.calls != nullptr ? *options.calls : kernel_),
      flock_(options.flock != nullptr ? options.flock : DirectoryLock::Flock(::flock)) {}

StateDirectory::~StateDirectory() {
  if (fd_ >= 0) calls_.Close(fd_);
  if (made_ && !saved_) RemoveUnused();
}

/// The lock's file is removed only while this run holds the lock. A directory that another run has
/// locked meanwhile has a file, and stays.
void StateDirectory::RemoveUnused() {
  if (lock_ != nullptr) {
    if (!lock_->held()) return;
    calls_.Unlink(path_ + "/" + kLockName);
  }
  calls_.RemoveDirectory(path_);
}

absl::StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::Open(
    const StateDirectoryOptions& options) {
  std::unique_ptr<StateDirectory> directory(new StateDirectory(options));
  SLUICE_RETURN_IF_ERROR(directory->Make());
  SLUICE_RETURN_IF_ERROR(directory->CheckNoOtherSave());
  SLUICE_RETURN_IF_ERROR(directory->OpenDirectory());
  SLUICE_ASSIGN_OR_RETURN(directory->lock_,
                          DirectoryLock::Take(directory->path_, directory->flock_));
  if (directory->lock_->held()) SLUICE_RETURN_IF_ERROR(directory->Clean());
  return directory;
}

absl::Status StateDirectory::Make() {
  if (path_.empty()) {
    return absl::InvalidArgumentError("it is empty; name a directory");
  }
  if (calls_.MakeDirectory(path_, 0777) == 0) {
    made_ = true;
    const std::string parent = ParentOf(path_);
    const int fd = calls_.Open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return base::StatusFromErrno(errno, "open directory " + parent);
    absl::Status synced = SyncDirectory(fd, parent);
    calls_.Close(fd);
    return synced;
  }
  const int error = errno;
  std::error_code ignored;
  if (error == EEXIST && fs::is_directory(path_, ignored)) return absl::OkStatus();
  if (error == EEXIST || error == ENOTDIR) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is no directory; name one, or a name that is not taken", path_));
  }
  if (error != ENOENT) return base::StatusFromErrno(error, "make directory " + path_);
  return absl::NotFoundError(fmt::format(
      "{} does not exist, so {} cannot be made in it; make it first", ParentOf(path_), path_));
}

absl::Status StateDirectory::OpenDirectory() {
  fd_ = calls_.Open(path_, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  return fd_ >= 0 ? absl::OkStatus() : base::StatusFromErrno(errno, "open directory " + path_);
}

/// A run would begin anew beside it.
absl::Status StateDirectory::CheckNoOtherSave() const {
  if (!HasSave(path_)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} is a save of --save-state; to go on from it after its N steps move it to {}/step-N, with "
      "N in 7 digits, or name another directory",
      FileOf(path_),
      path_));
}

absl::Status StateDirectory::Clean() {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<FoundSave> saves, ListNamed(path_));
  for (const FoundSave& save : saves) {
    SLUICE_RETURN_IF_ERROR(RemovePartialFiles(save.directory));
    if (HasSave(save.directory)) continue;
    // A directory that holds anything else stays.
    if (calls_.RemoveDirectory(save.directory) == 0) {
      removed_.push_back(SaveName(save.step));
    } else if (errno != ENOTEMPTY && errno != EEXIST) {
      return base::StatusFromErrno(errno, "remove " + save.directory);
    }
  }
  return absl::OkStatus();
}

absl::Status StateDirectory::RemovePartialFiles(const std::string& directory) {
  std::error_code error;
  for (auto entry = fs::directory_iterator(directory, error);
       !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (!IsPartialName(entry->path().filename().string())) continue;
    if (calls_.Unlink(entry->path().string()) == 0 || errno == ENOENT) continue;
    return base::StatusFromErrno(errno, "remove " + entry->path().string());
  }
  return error ? base::StatusFromErrno(error.value(), "list " + directory) : absl::OkStatus();
}

std::string StateDirectory::PathOf(int step) const {
  return fmt::format("{}/{}", path_, SaveName(step));
}

absl::StatusOr<std::string> StateDirectory::BeginSave(int step) {
  saved_ = true;
  const std::string directory = PathOf(step);
  if (calls_.MakeDirectory(directory, 0777) == 0 || errno == EEXIST) return directory;
  return base::StatusFromErrno(errno, "make directory " + directory);
}

void StateDirectory::GiveUpSave(int step) { calls_.RemoveDirectory(PathOf(step)); }

absl::Status StateDirectory::EndSave(int step) {
  SLUICE_RETURN_IF_ERROR(SyncDirectory(fd_, path_));
  std::erase(good_, step);
  good_.push_back(step);
  if (good_.size() < kSavesKept) return absl::OkStatus();
  if (good_.size() > kSavesKept) good_.erase(good_.begin());
  return RemoveOlderThan(good_.front());
}

bool StateDirectory::IsGood(int step) const {
  return std::find(good_.begin(), good_.end(), step) != good_.end();
}

absl::StatusOr<int> StateDirectory::Withdraw(int step) {
  std::erase(good_, step);
  SLUICE_RETURN_IF_ERROR(RemoveSave(PathOf(step)));
  SLUICE_RETURN_IF_ERROR(SyncDirectory(fd_, path_));
  return good_.empty() ? 0 : good_.back();
}

absl::Status StateDirectory::RemoveOlderThan(int step) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<FoundSave> saves, ListNamed(path_));
  for (const FoundSave& save : saves) {
    if (save.step < step) SLUICE_RETURN_IF_ERROR(RemoveSave(save.directory));
  }
  return absl::OkStatus();
}

/// A directory that holds anything beside the save stays.
absl::Status StateDirectory::RemoveSave(const std::string& directory) {
  const std::string file = FileOf(directory);
  if (calls_.Unlink(file) != 0 && errno != ENOENT) {
    return base::StatusFromErrno(errno, "remove " + file);
  }
  if (calls_.RemoveDirectory(directory) == 0 || errno == ENOTEMPTY || errno == EEXIST) {
    return absl::OkStatus();
  }
  return base::StatusFromErrno(errno, "remove " + directory);
}

/// Some file systems cannot sync a directory (EINVAL). FUSE and NFS let a signal interrupt a sync.
absl::Status StateDirectory::SyncDirectory(int fd, const std::string& path) {
  int result = calls_.Sync(fd);
  while (result != 0 && errno == EINTR) result = calls_.Sync(fd);
  if (result == 0 || errno == EINVAL) return absl::OkStatus();
  return base::StatusFromErrno(errno, "sync " + path);
}

}  // namespace sluice::tools
