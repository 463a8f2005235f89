#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/safetensors/safetensors_reader.h"

namespace sluice::io {

/// A tensor of a checkpoint, and the file that has it.
struct WeightTensor {
  std::size_t file = 0;  ///< number among WeightFiles::files()
  const SafetensorsEntry* entry = nullptr;
};

/// The files of a checkpoint, as they were published: opened and checked whole, never changed.
/// Threads: any.
class WeightFiles {
 public:
  /// `path`: a safetensors file, an index of several (`*.index.json`), or a directory that has one
  /// index, or else one safetensors file. Reads headers alone. Errors, which name the path, besides
  /// those of SafetensorsReader::Open and ParseWeightIndex:
  /// - NotFound: the path, or a file that the index names.
  /// - InvalidArgument: a directory with none or several, or a tensor that its file has not.
  static absl::StatusOr<std::unique_ptr<WeightFiles>> Open(const std::string& path);
  WeightFiles(const WeightFiles&) = delete;
  WeightFiles& operator=(const WeightFiles&) = delete;

  /// The index, or the one file.
  const std::string& path() const { return path_; }
  /// Files in the order of their names.
  const std::vector<std::unique_ptr<SafetensorsReader>>& files() const { return files_; }
  /// Tensors in the order of files, then of bytes.
  const std::vector<WeightTensor>& tensors() const { return tensors_; }
  /// Tensor of the name; null where there is none.
  const WeightTensor* Find(const std::string& name) const;
  /// Names of tensors that a file has and the index does not name: nobody reads them.
  const std::vector<std::string>& unnamed() const { return unnamed_; }
  /// Bytes of all files, headers included.
  std::uint64_t file_bytes() const;
  /// Errors: those of SafetensorsReader::CheckUnchanged.
  absl::Status CheckUnchanged() const;

 private:
  explicit WeightFiles(std::string path) : path_(std::move(path)) {}
  absl::Status OpenIndex();
  absl::Status OpenFile(const std::string& path);
  absl::Status CheckIndex(const std::map<std::string, std::string>& file_of) const;
  void NoteTensors(const std::map<std::string, std::string>* file_of);

  const std::string path_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::vector<WeightTensor> tensors_;
  std::vector<std::string> unnamed_;
  std::map<std::string, std::size_t> index_;  ///< place of each name in tensors_
};

}  // namespace sluice::io
