#include "tools/support/output/output_path.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

absl::Status NoFileName(const std::string& path) {
  return absl::InvalidArgumentError(fmt::format("\"{}\" is not a file name", path));
}

/// The target that is already there where the user wants a file.
absl::StatusOr<OutputPath> Existing(const std::string& path, mode_t mode) {
  std::error_code error;
  const fs::path canonical = fs::canonical(path, error);
  if (S_ISREG(mode)) {
    if (error) return base::StatusFromErrno(error.value(), "resolve " + path);
    return OutputPath{.path = canonical.string()};
  }
  if (!S_ISCHR(mode) && !S_ISFIFO(mode)) {
    const char* const what = S_ISDIR(mode) ? "a directory" : "a socket or a block device";
    return absl::InvalidArgumentError(fmt::format("{} is {}, not a file", path, what));
  }
  // A pipe behind /dev/stdout has no path of its own.
  return OutputPath{.path = error ? path : canonical.string(), .kind = OutputPath::Kind::kStream};
}

/// The path of a file that does not exist yet. If the path is a symbolic link, the file will be
/// where the links end.
absl::StatusOr<OutputPath> New(const std::string& path) {
  fs::path file = path;
  std::error_code error;
  for (fs::path to = fs::read_symlink(file, error); !error; to = fs::read_symlink(file, error)) {
    file = file.parent_path() / to;
  }
  const fs::path name = file.filename();
  if (name.empty() || name == "." || name == "..") return NoFileName(path);
  const fs::path parent = file.has_parent_path() ? file.parent_path() : ".";
  const fs::path directory = fs::canonical(parent, error);
  if (error.value() == ENOENT) {
    return absl::NotFoundError(fmt::format("directory {} does not exist", parent.string()));
  }
  if (error) return base::StatusFromErrno(error.value(), "open directory " + parent.string());
  return OutputPath{.path = (directory / name).string()};
}

}  // namespace

absl::StatusOr<OutputPath> ResolveOutput(const std::string& path) {
  if (path.empty()) return NoFileName(path);
  if (path == "-") {
    return absl::InvalidArgumentError(
        "\"-\" would be a file of that name; standard output is /dev/stdout, the file ./-");
  }
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) return Existing(path, info.st_mode);
  if (errno != ENOENT) return base::StatusFromErrno(errno, "create " + path);
  return New(path);
}

}  // namespace sluice::tools
