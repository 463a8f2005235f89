#include "tools/train/corpus.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/status.h"
#include "fmt/format.h"
#include "xxhash.h"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 8> kTextSuffixes = {
    ".cc", ".cmake", ".h", ".md", ".py", ".sh", ".toml", ".txt"};

bool IsProjectRoot(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "CMakeLists.txt", ignored) &&
         fs::exists(directory / "include" / "sluice" / "runtime.h", ignored);
}

std::optional<fs::path> FindProjectRoot(const std::string& start) {
  std::error_code error;
  for (const fs::path& from : {fs::absolute(start, error), fs::current_path(error)}) {
    for (fs::path at = from.lexically_normal(); !at.empty(); at = at.parent_path()) {
      if (IsProjectRoot(at)) return at;
      if (at == at.parent_path()) break;
    }
  }
  return std::nullopt;
}

/// Build outputs, version control and caches are no part of the text.
bool IsSkippedDirectory(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name.starts_with("build") || name == "__pycache__";
}

bool IsText(const fs::path& path) {
  const std::string suffix = path.extension().string();
  return std::find(kTextSuffixes.begin(), kTextSuffixes.end(), suffix) != kTextSuffixes.end();
}

/// The project's texts, sorted by the bytes of their paths, so that the corpus is the same
/// everywhere.
absl::StatusOr<std::vector<std::string>> ProjectFiles(const std::string& start) {
  const std::optional<fs::path> root = FindProjectRoot(start);
  if (!root.has_value()) {
    return absl::InvalidArgumentError(fmt::format(
        "no text: neither above \"{}\" nor above the working directory lies this project's source "
        "tree; name files with --text",
        start));
  }
  std::vector<std::string> files;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(*root, error);
       !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    if (entry->is_directory() && IsSkippedDirectory(entry->path()))
      entry.disable_recursion_pending();
    if (!entry->is_symlink() && entry->is_regular_file() && IsText(entry->path())) {
      files.push_back(entry->path().string());
    }
  }
  if (error) return base::StatusFromErrno(error.value(), "list " + root->string());
  std::sort(files.begin(), files.end());
  return files;
}

enum class EmptyFile { kIsAnError, kIsSkipped };

absl::Status AppendFile(const std::string& path,
                        EmptyFile empty,
                        std::vector<std::uint8_t>* bytes) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return absl::InvalidArgumentError(fmt::format("text {} is a directory; name files", path));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return base::StatusFromErrno(errno, fmt::format("open text {}", path));
  const std::size_t before = bytes->size();
  bytes->insert(bytes->end(), std::istreambuf_iterator<char>(file), {});
  if (file.bad()) return absl::InvalidArgumentError(fmt::format("text {} cannot be read", path));
  if (bytes->size() == before && empty == EmptyFile::kIsAnError) {
    return absl::InvalidArgumentError(fmt::format("text {} is empty", path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Corpus> LoadCorpus(const CorpusOptions& options) {
  std::vector<std::string> files = options.files;
  const bool own = files.empty();
  if (own) {
    SLUICE_ASSIGN_OR_RETURN(files, ProjectFiles(options.start_directory));
  }
  Corpus corpus{.files = files.size()};
  const EmptyFile empty = own ? EmptyFile::kIsSkipped : EmptyFile::kIsAnError;
  for (const std::string& file : files) {
    SLUICE_RETURN_IF_ERROR(AppendFile(file, empty, &corpus.bytes));
  }
  if (corpus.bytes.empty()) return absl::InvalidArgumentError("the text is empty");
  corpus.hash = fmt::format("{:016x}", XXH3_64bits(corpus.bytes.data(), corpus.bytes.size()));
  return corpus;
}

}  // namespace sluice::tools
