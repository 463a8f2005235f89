#include "tools/weights/weight_sums.h"

#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tools/support/output/safetensors_file.h"

namespace sluice::tools {
namespace {

std::string NameOf(const io::SafetensorsReader& file) {
  return std::filesystem::path(file.path()).filename().string();
}

}  // namespace

absl::StatusOr<io::WeightSums> SumFiles(const io::WeightFiles& weights,
                                        io::FileScanner& scanner,
                                        absl::FunctionRef<void(std::uint64_t bytes)> progress) {
  io::WeightSums sums;
  std::uint64_t read = 0;
  for (const auto& file : weights.files()) {
    io::BlockSums& of_file = sums[NameOf(*file)];
    SLUICE_RETURN_IF_ERROR(scanner.Scan(
        file->path(), file->file_bytes(), [&](std::uint64_t, std::span<const std::byte> bytes) {
          io::AppendSums(bytes, &of_file);
          progress(read += bytes.size());
          return true;
        }));
  }
  SLUICE_RETURN_IF_ERROR(weights.CheckUnchanged());
  return sums;
}

absl::Status WriteSums(const std::string& path, const io::WeightSums& sums) {
  SLUICE_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Create(path));
  std::vector<TensorSpec> specs;
  for (const auto& [name, of_file] : sums) {
    specs.push_back(
        {.name = name, .shape = {static_cast<std::int64_t>(of_file.size())}, .dtype = DType::kI64});
  }
  SLUICE_RETURN_IF_ERROR(file->Begin(std::move(specs), {{io::kSumsKindKey, io::kSumsKind}}));
  for (const auto& [name, of_file] : sums) {
    SLUICE_RETURN_IF_ERROR(file->Append(name, 0, std::as_bytes(std::span(of_file))));
  }
  return file->Commit();
}

}  // namespace sluice::tools
