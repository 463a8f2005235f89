#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "sluice/units.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/output/output_check.h"
#include "tools/support/word_command.h"
#include "tools/weights/weight_sums.h"
#include "tools/weights/weights.h"

namespace sluice::tools {
namespace {

const std::vector<FlagSpec>& SumFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"PATH", FlagShape::kWord, "", "a safetensors file, an index, or a directory with one"},
      {"--sums", FlagShape::kValue, "FILE", "the file to write (default: beside the index)"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

constexpr const char* kSumAbout =
    "Writes the XXH3-64 of each block of 64 KiB of a checkpoint's files, headers included, into\n"
    "PATH.sums, a safetensors file. `sluice weights check` compares with it.\n";

absl::Status Sum(const Arguments& arguments) {
  SLUICE_ASSIGN_OR_RETURN(const auto weights, io::WeightFiles::Open(arguments.Value("PATH")));
  const std::string path = arguments.Value("--sums", io::SumsPathOf(*weights));
  std::vector<NamedPath> inputs;
  for (const auto& file : weights->files()) inputs.push_back({"PATH", file->path()});
  const std::vector<NamedPath> outputs = {{"--sums", path}};
  SLUICE_RETURN_IF_ERROR(CheckOutputs(outputs, inputs));
  SLUICE_ASSIGN_OR_RETURN(const auto scanner, io::FileScanner::Create({}));
  Console console(Console::Mode::kText);
  SLUICE_ASSIGN_OR_RETURN(
      const io::WeightSums sums, SumFiles(*weights, *scanner, [&](std::uint64_t bytes) {
        console.ShowProgress(fmt::format(
            "read {} of {}", ToString(Bytes(bytes)), ToString(Bytes(weights->file_bytes()))));
      }));
  SLUICE_RETURN_IF_ERROR(WriteSums(path, sums));
  console.Print(fmt::format("checksums of {} in {}: {}\n",
                            ToString(Bytes(weights->file_bytes())),
                            base::Counted(weights->files().size(), "file"),
                            path));
  return console.status();
}

}  // namespace

int RunWeightsSum(std::span<const std::string> words) {
  return RunWordCommand({.usage = "sluice weights sum PATH [--sums FILE]",
                         .about = kSumAbout,
                         .flags = SumFlagSpecs()},
                        words,
                        Sum);
}

}  // namespace sluice::tools
