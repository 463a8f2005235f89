#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/state/state.h"
#include "tools/state/state_metadata.h"
#include "tools/state/state_save.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/output/output_check.h"
#include "tools/support/output/safetensors_file.h"
#include "tools/support/word_command.h"

namespace sluice::tools {
namespace {

const std::vector<FlagSpec>& ExportFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"DIR", FlagShape::kWord, "", "a directory with optimizer.sluice"},
      {"FILE", FlagShape::kWord, "", "the safetensors file to write"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

constexpr const char* kExportAbout =
    "Writes the save of an optimizer in DIR as a safetensors file: parameters under their\n"
    "names, states as NAME.m and NAME.v, scales of 8-bit states as NAME.m.scale. Kind, step,\n"
    "groups, rates, own steps and note are in __metadata__. `sluice state import` makes the\n"
    "same save of it.\n";

/// Wide types first, so that each tensor's first byte is aligned.
std::vector<std::size_t> OrderInFile(const std::vector<StateTensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return SizeOf(tensors[a].type) > SizeOf(tensors[b].type);
  });
  return order;
}

absl::Status WriteSafetensors(const StateSave& save, SafetensorsFile& file, Console& console) {
  const std::vector<StateCodes> codes = CodesOf(save.description().layout);
  const std::vector<StateTensor>& tensors = save.tensors();
  const std::vector<std::size_t> order = OrderInFile(tensors);
  std::vector<TensorSpec> specs;
  for (const StateCodes& each : codes) {
    specs.push_back({.name = each.key, .shape = {static_cast<std::int64_t>(each.table.size())}});
  }
  for (const std::size_t i : order) {
    specs.push_back({.name = tensors[i].key, .shape = tensors[i].shape, .dtype = tensors[i].type});
  }
  SLUICE_RETURN_IF_ERROR(file.Begin(std::move(specs), MetadataOf(save.description())));
  for (const StateCodes& each : codes) {
    SLUICE_RETURN_IF_ERROR(file.Append(each.key, 0, std::as_bytes(std::span(each.table))));
  }
  for (const std::size_t i : order) {
    console.ShowProgress("writing " + tensors[i].key);
    SLUICE_RETURN_IF_ERROR(
        save.ReadTensor(i, [&](std::uint64_t offset, std::span<const std::byte> piece) {
          return file.Append(tensors[i].key, offset, piece);
        }));
  }
  return file.Commit();
}

absl::Status Export(const std::string& directory, const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<StateSave> save, StateSave::Open(directory));
  const std::vector<NamedPath> outputs = {{"FILE", path}};
  const std::vector<NamedPath> inputs = {{"DIR", StateFileIn(directory)}};
  SLUICE_RETURN_IF_ERROR(CheckOutputs(outputs, inputs));
  SLUICE_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Create(path));
  Console console(Console::Mode::kText);
  SLUICE_RETURN_IF_ERROR(WriteSafetensors(*save, *file, console));
  console.Print(fmt::format("exported step {}: {} tensors of {} parameters in {}\n",
                            save->description().step,
                            save->tensors().size(),
                            save->description().keys.size(),
                            path));
  return console.status();
}

}  // namespace

int RunStateExport(std::span<const std::string> words) {
  return RunWordCommand({.usage = "sluice state export DIR FILE.safetensors",
                         .about = kExportAbout,
                         .flags = ExportFlagSpecs()},
                        words,
                        [](const Arguments& arguments) {
                          return Export(arguments.Value("DIR"), arguments.Value("FILE"));
                        });
}

}  // namespace sluice::tools
