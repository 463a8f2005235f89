#include "tools/train/files/corpus.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/support/read_file.h"
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

/// The texts under `root`, sorted by the bytes of their paths, so that the corpus is the same
/// everywhere.
absl::StatusOr<std::vector<std::string>> ListTexts(const fs::path& root) {
  std::vector<std::string> files;
  fs::path last = root;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(root, error);
       !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    last = entry->path();
    // The status is that of the entry itself: a symbolic link may lead anywhere, even to itself. A
    // file that has vanished meanwhile is no text.
    std::error_code vanished;
    const fs::file_status status = entry->symlink_status(vanished);
    if (fs::is_directory(status) && IsSkippedDirectory(last)) entry.disable_recursion_pending();
    if (fs::is_regular_file(status) && IsText(last)) files.push_back(last.string());
  }
  if (error) return base::StatusFromErrno(error.value(), "list " + last.string());
  std::sort(files.begin(), files.end());
  return files;
}

/// The project's texts.
absl::StatusOr<std::vector<std::string>> ProjectFiles(const std::string& start) {
  const std::optional<fs::path> root = FindProjectRoot(start);
  if (!root.has_value()) {
    std::error_code ignored;
    return absl::InvalidArgumentError(fmt::format(
        "no text: neither above {} nor above the working directory {} lies this project's source "
        "tree; name files with --text",
        start.empty() ? "the configuration" : start,
        fs::current_path(ignored).string()));
  }
  return ListTexts(*root);
}

enum class EmptyFile { kIsAnError, kIsSkipped };

absl::Status AppendFile(const std::string& path, EmptyFile empty, gpt::Text* text) {
  if (path.empty()) return absl::InvalidArgumentError("the name is empty; name a file");
  const std::size_t before = text->size();
  const auto append = [text](std::string_view piece) {
    text->Append(piece);
    return absl::OkStatus();
  };
  absl::Status read = ReadFile(path, kTextBytesMax - Bytes(before), append);
  if (!read.ok() && before == 0) return read;
  SLUICE_RETURN_IF_ERROR(base::Annotate(read, "all texts together are bounded"));
  if (text->size() == before && empty == EmptyFile::kIsAnError) {
    return absl::InvalidArgumentError(
        fmt::format("{} is empty", path == kStandardInput ? "standard input" : path));
  }
  return absl::OkStatus();
}

std::string HashOf(const gpt::Text& text) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const gpt::Text::Chunk& chunk : text.chunks()) {
    XXH3_64bits_update(state.get(), chunk.data(), chunk.size());
  }
  return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
}

}  // namespace

absl::StatusOr<Corpus> LoadCorpus(const CorpusOptions& options) {
  std::vector<std::string> files = options.files;
  const bool own = files.empty();
  if (own) {
    SLUICE_ASSIGN_OR_RETURN(files, ProjectFiles(options.start_directory));
  }
  if (std::count(files.begin(), files.end(), kStandardInput) > 1) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: \"-\" is named twice; standard input can be read once", options.files_name));
  }
  Corpus corpus{.files = files.size()};
  const EmptyFile empty = own ? EmptyFile::kIsSkipped : EmptyFile::kIsAnError;
  for (const std::string& file : files) {
    const absl::Status appended = AppendFile(file, empty, &corpus.text);
    if (!appended.ok()) return base::Annotate(appended, own ? "text" : options.files_name);
  }
  if (corpus.text.empty()) return absl::InvalidArgumentError("the text is empty");
  corpus.hash = HashOf(corpus.text);
  return corpus;
}

}  // namespace sluice::tools
