#include "io/safetensors/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/safetensors/header_events.h"
#include "io/safetensors/weight_index.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileEnd = ".safetensors";
constexpr std::string_view kIndexEnd = ".index.json";

std::string NameOf(const std::string& path) { return fs::path(path).filename().string(); }

/// Paths in the directory whose names end so, sorted.
absl::StatusOr<std::vector<std::string>> FilesEndingWith(const std::string& directory,
                                                         std::string_view end) {
  std::error_code error;
  std::vector<std::string> found;
  auto entry = fs::directory_iterator(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(end)) found.push_back(entry->path().string());
  }
  if (error) return base::StatusFromErrno(error.value(), "list " + directory);
  std::sort(found.begin(), found.end());
  return found;
}

/// The index or file that stands for a directory.
absl::StatusOr<std::string> FindIn(const std::string& directory) {
  for (const std::string_view end : {kIndexEnd, kFileEnd}) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> found, FilesEndingWith(directory, end));
    if (found.size() == 1) return found.front();
    if (found.size() > 1) {
      return absl::InvalidArgumentError(
          base::ToAbsl(fmt::format("{} has {} names that end in {}; name one of them, as {}",
                                   directory,
                                   found.size(),
                                   end,
                                   found.front())));
    }
  }
  return absl::InvalidArgumentError(base::ToAbsl(fmt::format(
      "{} has no safetensors file and no index of such; name a directory that has", directory)));
}

absl::StatusOr<std::string> ReadIndexText(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error) return base::StatusFromErrno(error.value(), "open " + path);
  if (bytes > kWeightIndexBytesMax) {
    return absl::InvalidArgumentError(base::ToAbsl(fmt::format(
        "{} has {} bytes; an index has at most {}", path, bytes, kWeightIndexBytesMax)));
  }
  std::ifstream stream(path, std::ios::binary);
  std::string text(bytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.gcount() == static_cast<std::streamsize>(text.size())) return text;
  return absl::DataLossError(base::ToAbsl(fmt::format("{} cannot be read whole", path)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightFiles>> WeightFiles::Open(const std::string& path) {
  std::error_code error;
  std::string named = path;
  if (fs::is_directory(path, error)) {
    SLUICE_ASSIGN_OR_RETURN(named, FindIn(path));
  }
  std::unique_ptr<WeightFiles> weights(new WeightFiles(named));
  if (named.ends_with(kIndexEnd)) {
    SLUICE_RETURN_IF_ERROR(weights->OpenIndex());
  } else {
    SLUICE_RETURN_IF_ERROR(weights->OpenFile(named));
    weights->NoteTensors(nullptr);
  }
  return weights;
}

absl::Status WeightFiles::OpenFile(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(auto file, SafetensorsReader::Open(path));
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status WeightFiles::OpenIndex() {
  if (!fs::exists(path_))
    return absl::NotFoundError(base::ToAbsl(
        path_ + " does not exist; name a safetensors file, an index, or a directory with one"));
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadIndexText(path_));
  const absl::StatusOr<std::map<std::string, std::string>> file_of = ParseWeightIndex(text);
  if (!file_of.ok()) return base::Annotate(file_of.status(), path_);
  std::set<std::string> names;
  for (const auto& [tensor, file] : *file_of) names.insert(file);
  const fs::path directory = fs::path(path_).parent_path();
  for (const std::string& name : names) {
    const absl::Status opened = OpenFile((directory / name).string());
    if (!opened.ok()) return base::Annotate(opened, path_);
  }
  SLUICE_RETURN_IF_ERROR(CheckIndex(*file_of));
  NoteTensors(&*file_of);
  return absl::OkStatus();
}

absl::Status WeightFiles::CheckIndex(const std::map<std::string, std::string>& file_of) const {
  std::map<std::string, const SafetensorsReader*> files;
  for (const auto& file : files_) files[NameOf(file->path())] = file.get();
  for (const auto& [tensor, file] : file_of) {
    if (files.at(file)->Find(tensor) != nullptr) continue;
    return absl::InvalidArgumentError(base::ToAbsl(
        fmt::format("{}: tensor {} is not in {}, where the index has it; fetch both files again",
                    path_,
                    ShownName(tensor),
                    ShownName(file))));
  }
  return absl::OkStatus();
}

void WeightFiles::NoteTensors(const std::map<std::string, std::string>* file_of) {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::string file = NameOf(files_[i]->path());
    const auto is_named = [&](const std::string& tensor) {
      if (file_of == nullptr) return true;
      const auto found = file_of->find(tensor);
      return found != file_of->end() && found->second == file;
    };
    for (const SafetensorsEntry& entry : files_[i]->header().tensors) {
      if (!is_named(entry.name)) {
        unnamed_.push_back(entry.name);
        continue;
      }
      index_[entry.name] = tensors_.size();
      tensors_.push_back({i, &entry});
    }
  }
}

const WeightTensor* WeightFiles::Find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::uint64_t WeightFiles::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& file : files_) bytes += file->file_bytes();
  return bytes;
}

absl::Status WeightFiles::CheckUnchanged() const {
  for (const auto& file : files_) SLUICE_RETURN_IF_ERROR(file->CheckUnchanged());
  return absl::OkStatus();
}

}  // namespace sluice::io
