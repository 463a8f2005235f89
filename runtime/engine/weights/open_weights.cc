#include "runtime/engine/weights/open_weights.h"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "base/status.h"
#include "io/safetensors/weight_files.h"

namespace sluice::engine {
namespace {

/// The tensor of a weight, whose elements are bytes where sluice does not know their type.
TensorSpec SpecOf(const io::SafetensorsReader& file,
                  const io::SafetensorsEntry& entry,
                  const WeightOptions& options) {
  TensorSpec spec{
      .name = entry.name,
      .shape = entry.shape,
      .dtype = entry.type->dtype.value_or(DType::kU8),
      .kind = TensorKind::kParameter,
      .off_lease = options.off_lease,
      .file = FileHome{
          .path = file.path(), .offset = file.data_begin() + entry.offset, .read_only = true}};
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
                           const WeightOptions& options,
                           std::vector<Weight>* weights) {
  std::vector<TensorSpec> specs;
  std::vector<std::size_t> places;
  for (const io::WeightTensor& tensor : files.tensors()) {
    if (tensor.file != file) continue;
    weights->push_back(Describe(*files.files()[file], *tensor.entry));
    if (tensor.entry->bytes == 0) continue;
    places.push_back(weights->size() - 1);
    specs.push_back(SpecOf(*files.files()[file], *tensor.entry, options));
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
  std::vector<Weight> weights;
  absl::Status status;
  for (std::size_t i = 0; i < files->files().size() && status.ok(); ++i) {
    status = CreateWeights(runtime, *files, i, options, &weights);
  }
  // Between the header and here another program may have written the file.
  if (status.ok()) status = files->CheckUnchanged();
  if (status.ok()) return weights;
  for (const Weight& weight : weights) {
    if (weight.tensor != TensorId()) SLUICE_RETURN_IF_ERROR(runtime.Free(weight.tensor));
  }
  return status;
}

}  // namespace sluice::engine
