#include "tools/support/output/safetensors_file.h"

#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "io/safetensors/safetensors_header.h"
#include "nlohmann/json.hpp"

namespace sluice::tools {
namespace {

constexpr std::size_t kHeaderAlignment = 8;

/// The length of the header as 8 little-endian bytes, then the header, padded with spaces.
std::string HeaderText(std::span<const TensorSpec> tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json;
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::uint64_t end = offset + SizeOf(tensor).count();
    json[tensor.name] = {{"dtype", io::SafetensorsName(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  std::string header;
  for (int byte = 0; byte < 8; ++byte) {
    header.push_back(static_cast<char>((text.size() >> (8 * byte)) & 0xff));
  }
  return header + text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Create(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  return std::unique_ptr<SafetensorsFile>(new SafetensorsFile(std::move(file)));
}

absl::Status SafetensorsFile::Begin(std::vector<TensorSpec> tensors,
                                    const std::map<std::string, std::string>& metadata) {
  tensors_ = std::move(tensors);
  const std::string header = HeaderText(tensors_, metadata);
  if (header.size() > io::kSafetensorsHeaderBytesMax) {
    return absl::InvalidArgumentError(
        fmt::format("the header of {} tensors has {} bytes; readers of safetensors take {}",
                    tensors_.size(),
                    header.size(),
                    io::kSafetensorsHeaderBytesMax));
  }
  return file_->Append(header);
}

absl::Status SafetensorsFile::Append(const std::string& tensor,
                                     std::uint64_t offset,
                                     std::span<const std::byte> bytes) {
  const bool in_order = tensor_ < tensors_.size() && tensors_[tensor_].name == tensor &&
                        offset == offset_ &&
                        bytes.size() <= SizeOf(tensors_[tensor_]).count() - offset;
  if (!in_order) {
    return absl::InvalidArgumentError("tensor " + tensor + " does not come next in the file");
  }
  SLUICE_RETURN_IF_ERROR(
      file_->Append({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  offset_ += bytes.size();
  if (offset_ == SizeOf(tensors_[tensor_]).count()) {
    ++tensor_;
    offset_ = 0;
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::Commit() {
  if (tensor_ < tensors_.size()) {
    return absl::FailedPreconditionError("tensor " + tensors_[tensor_].name + " was not written");
  }
  return file_->Commit();
}

}  // namespace sluice::tools
