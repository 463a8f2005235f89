#include "runtime/engine/weights/open_weights.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "io/safetensors/weight_files.h"
#include "io/safetensors/weight_sums.h"

namespace sluice::engine {
namespace {

/// Checksums of the blocks of each file; null where there are none.
using FileSums = std::vector<std::shared_ptr<const io::BlockSums>>;

/// Errors: NotFound (there are none, and they are required), InvalidArgument (a file has none).
absl::StatusOr<FileSums> FindSums(const io::WeightFiles& files, Use use) {
  FileSums found(files.files().size());
  const std::string path = io::SumsPathOf(files);
  if (use == Use::kOff) return found;
  if (use == Use::kAuto && !std::filesystem::exists(path)) return found;
  SLUICE_ASSIGN_OR_RETURN(io::WeightSums sums, io::ReadSums(path));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& file = files.files()[i]->path();
    const auto of_file = sums.find(std::filesystem::path(file).filename().string());
    if (of_file == sums.end()) {
      return absl::InvalidArgumentError(fmt::format(
          "{} has no checksums of {}; make them anew with `sluice weights sum`", path, file));
    }
    found[i] = std::make_shared<const io::BlockSums>(std::move(of_file->second));
  }
  return found;
}

/// The tensor of a weight, whose elements are bytes where sluice does not know their type.
TensorSpec SpecOf(const io::SafetensorsReader& file,
                  const io::SafetensorsEntry& entry,
                  const std::shared_ptr<const io::BlockSums>& sums,
                  const WeightOptions& options) {
  TensorSpec spec{.name = entry.name,
                  .shape = entry.shape,
                  .dtype = entry.type->dtype.value_or(DType::kU8),
                  .kind = TensorKind::kParameter,
                  .off_lease = options.off_lease,
                  .file = FileHome{.path = file.path(),
                                   .offset = file.data_begin() + entry.offset,
                                   .read_only = true,
                                   .block_sums = sums}};
  if (!entry.type->dtype) spec.shape = {static_cast<std::int64_t>(entry.bytes)};
  return spec;
}

Weight Describe(const io::SafetensorsReader& file, const io::SafetensorsEntry& entry) {
  return {.name = entry.name,
          .shape = entry.shape,
          .type = std::string(entry.type->name),
          .bytes = Bytes(entry.bytes),
          .file = file.path()};
}

/// One segment for each file.
absl::Status CreateWeights(Runtime& runtime,
                           const io::WeightFiles& files,
                           std::size_t file,
                           const FileSums& sums,
                           const WeightOptions& options,
                           std::vector<Weight>* weights) {
  std::vector<TensorSpec> specs;
  std::vector<std::size_t> places;
  for (const io::WeightTensor& tensor : files.tensors()) {
    if (tensor.file != file) continue;
    weights->push_back(Describe(*files.files()[file], *tensor.entry));
    if (tensor.entry->bytes == 0) continue;
    places.push_back(weights->size() - 1);
    specs.push_back(SpecOf(*files.files()[file], *tensor.entry, sums[file], options));
  }
  if (specs.empty()) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::vector<TensorId> ids, runtime.CreateTensors(specs));
  for (std::size_t i = 0; i < ids.size(); ++i) (*weights)[places[i]].tensor = ids[i];
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Weight>> OpenWeights(Runtime& runtime,
                                                const std::string& path,
                                                const WeightOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const auto files, io::WeightFiles::Open(path));
  SLUICE_ASSIGN_OR_RETURN(const FileSums sums, FindSums(*files, options.sums));
  std::vector<Weight> weights;
  absl::Status status;
  for (std::size_t i = 0; i < files->files().size() && status.ok(); ++i) {
    status = CreateWeights(runtime, *files, i, sums, options, &weights);
  }
  // Another program may have written the file since the header was read.
  if (status.ok()) status = files->CheckUnchanged();
  if (status.ok()) return weights;
  for (const Weight& weight : weights) {
    if (weight.tensor != TensorId()) SLUICE_RETURN_IF_ERROR(runtime.Free(weight.tensor));
  }
  return status;
}

}  // namespace sluice::engine
