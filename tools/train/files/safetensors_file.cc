#include "tools/train/files/safetensors_file.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "nlohmann/json.hpp"
#include "tools/support/atomic_file.h"

namespace sluice::tools {
namespace {

constexpr std::size_t kHeaderAlignment = 8;

std::string_view FormatName(DType dtype) {
  constexpr std::array<std::string_view, 7> kNames = {
      "F32", "F16", "BF16", "I8", "U8", "I32", "I64"};
  return kNames[static_cast<std::size_t>(dtype)];
}

/// The length of the header as 8 little-endian bytes, then the header, padded with spaces.
std::string HeaderText(std::span<const TensorSpec> tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json;
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::uint64_t end = offset + SizeOf(tensor).count();
    json[tensor.name] = {{"dtype", FormatName(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json.dump();
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
  return file_->Append(HeaderText(tensors_, metadata));
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
