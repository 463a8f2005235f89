#include "tools/weights/weight_sums.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "io/safetensors/header_events.h"
#include "io/store/xxh3.h"
#include "tools/support/output/safetensors_file.h"

namespace sluice::tools {
namespace {

constexpr const char* kKindKey = "sluice.sums";
constexpr const char* kKind = "xxh3-64 of blocks of 65536 bytes";

std::string NameOf(const io::SafetensorsReader& file) {
  return std::filesystem::path(file.path()).filename().string();
}

/// REQUIRES: `bytes` begin at a block.
void AddSums(std::span<const std::byte> bytes, std::vector<std::int64_t>& sums) {
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), kSumBlockBytes);
    sums.push_back(static_cast<std::int64_t>(io::Xxh3(bytes.data(), size, 0)));
    bytes = bytes.subspan(size);
  }
}

}  // namespace

std::string SumsPathOf(const io::WeightFiles& weights) { return weights.path() + ".sums"; }

absl::StatusOr<WeightSums> SumFiles(const io::WeightFiles& weights,
                                    io::FileScanner& scanner,
                                    absl::FunctionRef<void(std::uint64_t bytes)> progress) {
  WeightSums sums;
  std::uint64_t read = 0;
  for (const auto& file : weights.files()) {
    std::vector<std::int64_t>& of_file = sums[NameOf(*file)];
    SLUICE_RETURN_IF_ERROR(scanner.Scan(
        file->path(), file->file_bytes(), [&](std::uint64_t, std::span<const std::byte> bytes) {
          AddSums(bytes, of_file);
          progress(read += bytes.size());
          return true;
        }));
  }
  SLUICE_RETURN_IF_ERROR(weights.CheckUnchanged());
  return sums;
}

absl::Status WriteSums(const std::string& path, const WeightSums& sums) {
  SLUICE_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Create(path));
  std::vector<TensorSpec> specs;
  for (const auto& [name, of_file] : sums) {
    specs.push_back(
        {.name = name, .shape = {static_cast<std::int64_t>(of_file.size())}, .dtype = DType::kI64});
  }
  SLUICE_RETURN_IF_ERROR(file->Begin(std::move(specs), {{kKindKey, kKind}}));
  for (const auto& [name, of_file] : sums) {
    SLUICE_RETURN_IF_ERROR(file->Append(name, 0, std::as_bytes(std::span(of_file))));
  }
  return file->Commit();
}

absl::StatusOr<WeightSums> ReadSums(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const auto file, io::SafetensorsReader::Open(path));
  const auto kind = file->header().metadata.find(kKindKey);
  if (kind == file->header().metadata.end() || kind->second != kKind) {
    return absl::InvalidArgumentError(fmt::format(
        "{} has no checksums that are known here; make them with `sluice weights sum`", path));
  }
  WeightSums sums;
  for (const io::SafetensorsEntry& entry : file->header().tensors) {
    if (entry.type->dtype != DType::kI64) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: {} is {} and no I64", path, io::ShownName(entry.name), entry.type->name));
    }
    std::vector<std::int64_t>& of_file = sums[entry.name];
    of_file.resize(entry.count());
    SLUICE_RETURN_IF_ERROR(file->Read(entry, 0, std::as_writable_bytes(std::span(of_file))));
  }
  return sums;
}

}  // namespace sluice::tools
