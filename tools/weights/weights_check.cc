#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/safetensors/header_events.h"
#include "sluice/units.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/exit_code.h"
#include "tools/support/word_command.h"
#include "tools/weights/weight_sums.h"
#include "tools/weights/weights.h"

namespace sluice::tools {
namespace {

/// Differences that are told one by one.
constexpr std::size_t kToldMax = 10;

const std::vector<FlagSpec>& CheckFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"PATH", FlagShape::kWord, "", "a safetensors file, an index, or a directory with one"},
      {"--sums",
       FlagShape::kValue,
       "FILE",
       "checksums to compare with (default: beside the index)"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

constexpr const char* kCheckAbout =
    "Reads a checkpoint whole: headers and index must agree, every byte must be readable, and\n"
    "each block must have its checksum where `sluice weights sum` has made some. Exit 1 where a\n"
    "block differs.\n";

/// The checksums of --sums, or those beside the checkpoint; none where there are none.
absl::StatusOr<io::WeightSums> FindSums(const Arguments& arguments,
                                        const io::WeightFiles& weights) {
  if (arguments.Has("--sums")) return io::ReadSums(arguments.Value("--sums"));
  if (!std::filesystem::exists(io::SumsPathOf(weights))) return io::WeightSums();
  return io::ReadSums(io::SumsPathOf(weights));
}

/// Names of the tensors that have bytes of [begin, end) of the file, for a message.
std::string TensorsIn(const io::SafetensorsReader& file, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::string> names;
  if (begin < file.data_begin()) names.emplace_back("the header");
  for (const io::SafetensorsEntry& tensor : file.header().tensors) {
    const std::uint64_t first = file.data_begin() + tensor.offset;
    if (first < end && first + tensor.bytes > begin) names.push_back(io::ShownName(tensor.name));
  }
  if (names.size() <= 3) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, {} and {} more", names[0], names[1], names.size() - 2);
}

/// A line for each block of the file that differs.
std::vector<std::string> DifferencesIn(const io::SafetensorsReader& file,
                                       const std::vector<std::int64_t>& now,
                                       const std::vector<std::int64_t>& before) {
  std::vector<std::string> lines;
  if (now.size() != before.size()) {
    lines.push_back(fmt::format(
        "{} has {} blocks, and checksums of {}", file.path(), now.size(), before.size()));
  }
  for (std::size_t i = 0; i < std::min(now.size(), before.size()); ++i) {
    if (now[i] == before[i]) continue;
    const std::uint64_t begin = i * io::kSumBlockBytes;
    const std::uint64_t end = std::min(begin + io::kSumBlockBytes, file.file_bytes());
    lines.push_back(fmt::format(
        "{} differs in bytes {} to {}: {}", file.path(), begin, end, TensorsIn(file, begin, end)));
  }
  return lines;
}

std::vector<std::string> Compare(const io::WeightFiles& weights,
                                 const io::WeightSums& now,
                                 const io::WeightSums& before) {
  std::vector<std::string> lines;
  for (const auto& file : weights.files()) {
    const std::string name = std::filesystem::path(file->path()).filename().string();
    const auto found = before.find(name);
    if (found == before.end()) {
      lines.push_back(fmt::format("{} has no checksums", file->path()));
      continue;
    }
    const std::vector<std::string> more = DifferencesIn(*file, now.at(name), found->second);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

void PrintDifferences(const std::vector<std::string>& lines, Console& console) {
  for (std::size_t i = 0; i < std::min(lines.size(), kToldMax); ++i) console.Print(lines[i] + "\n");
  if (lines.size() > kToldMax) {
    console.Print(fmt::format("and {} differences more\n", lines.size() - kToldMax));
  }
  console.Print("fetch the files again, or make new checksums if they were meant to change\n");
}

absl::StatusOr<int> Check(const Arguments& arguments) {
  SLUICE_ASSIGN_OR_RETURN(const auto weights, io::WeightFiles::Open(arguments.Value("PATH")));
  SLUICE_ASSIGN_OR_RETURN(const io::WeightSums before, FindSums(arguments, *weights));
  SLUICE_ASSIGN_OR_RETURN(const auto scanner, io::FileScanner::Create({}));
  Console console(Console::Mode::kText);
  SLUICE_ASSIGN_OR_RETURN(
      const io::WeightSums now, SumFiles(*weights, *scanner, [&](std::uint64_t bytes) {
        console.ShowProgress(fmt::format(
            "read {} of {}", ToString(Bytes(bytes)), ToString(Bytes(weights->file_bytes()))));
      }));
  if (!before.empty()) {
    const std::vector<std::string> differences = Compare(*weights, now, before);
    if (!differences.empty()) {
      PrintDifferences(differences, console);
      SLUICE_RETURN_IF_ERROR(console.status());
      return kExitDiffers;
    }
  }
  console.Print(fmt::format("{}: {} in {}, {}, every byte read; {}\n",
                            weights->path(),
                            base::Counted(weights->tensors().size(), "tensor"),
                            base::Counted(weights->files().size(), "file"),
                            ToString(Bytes(weights->file_bytes())),
                            before.empty()
                                ? "no checksums to compare with (`sluice weights sum` makes some)"
                                : "every checksum is as it was"));
  SLUICE_RETURN_IF_ERROR(console.status());
  return kExitDone;
}

}  // namespace

int RunWeightsCheck(std::span<const std::string> words) {
  int exit_code = kExitDone;
  const int ran = RunWordCommand({.usage = "sluice weights check PATH [--sums FILE]",
                                  .about = kCheckAbout,
                                  .flags = CheckFlagSpecs()},
                                 words,
                                 [&](const Arguments& arguments) -> absl::Status {
                                   SLUICE_ASSIGN_OR_RETURN(exit_code, Check(arguments));
                                   return absl::OkStatus();
                                 });
  return ran == kExitDone ? exit_code : ran;
}

}  // namespace sluice::tools
