#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "io/safetensors/header_events.h"
#include "io/safetensors/safetensors_reader.h"
#include "runtime/optim/save/saved_tensors.h"
#include "runtime/optim/save/state_writer.h"
#include "tools/state/state.h"
#include "tools/state/state_metadata.h"
#include "tools/state/state_save.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/word_command.h"

namespace sluice::tools {
namespace {

const std::vector<FlagSpec>& ImportFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"FILE", FlagShape::kWord, "", "a file that `sluice state export` wrote"},
      {"DIR", FlagShape::kWord, "", "a directory without optimizer.sluice"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

constexpr const char* kImportAbout =
    "Writes DIR/optimizer.sluice from a safetensors file as `sluice state export` makes it.\n"
    "Another tool may have changed values or written the file anew: order, alignment and\n"
    "shapes do not matter, names, types and __metadata__ do.\n";

/// The tensor of the file that a save's tensor is made of.
absl::StatusOr<const io::SafetensorsEntry*> FindTensor(const io::SafetensorsReader& file,
                                                       const StateTensor& wanted) {
  const io::SafetensorsEntry* const found = file.Find(wanted.key);
  const std::string shown = io::ShownName(wanted.key);
  if (found == nullptr) {
    return absl::InvalidArgumentError(fmt::format("{}: tensor {} is missing; add it ({} [{}])",
                                                  file.path(),
                                                  shown,
                                                  io::SafetensorsName(wanted.type),
                                                  wanted.count));
  }
  if (found->type->dtype == wanted.type && found->count() == wanted.count) return found;
  return absl::InvalidArgumentError(
      fmt::format("{}: tensor {} is {} {}; by its parameter and \"sluice.states\" it must be {} "
                  "[{}]: convert it",
                  file.path(),
                  shown,
                  found->type->name,
                  io::ShapeText(found->shape),
                  io::SafetensorsName(wanted.type),
                  wanted.count));
}

/// The codes of the file stand for what ours do; a file without tables has ours.
absl::Status CheckCodes(const io::SafetensorsReader& file, const StateCodes& codes) {
  const io::SafetensorsEntry* const found = file.Find(codes.key);
  if (found == nullptr) return absl::OkStatus();
  CodeTable table{};
  const auto bytes = std::as_writable_bytes(std::span(table));
  bool same = found->type->dtype == DType::kF32 && found->bytes == bytes.size();
  if (same) {
    SLUICE_RETURN_IF_ERROR(file.Read(*found, 0, bytes));
    same = std::memcmp(table.data(), codes.table.data(), bytes.size()) == 0;
  }
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: tensor '{}' has other values than sluice's codes; encode the states by "
                  "those, and leave the tensor as it was exported",
                  file.path(),
                  codes.key));
}

/// A tensor that nothing takes would be lost.
absl::Status CheckNoMore(const io::SafetensorsReader& file, const std::set<std::string>& known) {
  for (const io::SafetensorsEntry& tensor : file.header().tensors) {
    if (known.contains(tensor.name)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: tensor {} belongs to no parameter of \"sluice.groups\"; remove it, or add "
                    "its parameter there",
                    file.path(),
                    io::ShownName(tensor.name)));
  }
  return absl::OkStatus();
}

/// The tensors of the save in the file, in the save's order.
absl::StatusOr<std::vector<const io::SafetensorsEntry*>> MatchTensors(
    const io::SafetensorsReader& file, const StateDescription& state) {
  std::set<std::string> known;
  std::vector<const io::SafetensorsEntry*> matched;
  for (const StateTensor& wanted : TensorsOf(state)) {
    SLUICE_ASSIGN_OR_RETURN(const io::SafetensorsEntry* const found, FindTensor(file, wanted));
    if (!known.insert(wanted.key).second) {
      return absl::InvalidArgumentError(
          fmt::format("{}: tensor {} is a parameter's and a state's; give one of them another "
                      "\"tensor\" in \"sluice.groups\"",
                      file.path(),
                      io::ShownName(wanted.key)));
    }
    matched.push_back(found);
  }
  for (const StateCodes& codes : CodesOf(state.layout)) {
    SLUICE_RETURN_IF_ERROR(CheckCodes(file, codes));
    known.insert(codes.key);
  }
  SLUICE_RETURN_IF_ERROR(CheckNoMore(file, known));
  return matched;
}

absl::Status CheckIsFree(const std::string& directory) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(StateFileIn(directory), error);
  if (!std::filesystem::exists(status)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is there already and would be replaced; move it away, or name another "
                  "directory",
                  StateFileIn(directory)));
}

/// Copies a tensor of the file to be tensor `number` of the save.
absl::Status CopyTensor(const io::SafetensorsReader& file,
                        const io::SafetensorsEntry& tensor,
                        std::size_t number,
                        optim::StateWriter& writer) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(tensor.bytes, kStatePieceBytes));
  for (std::uint64_t offset = 0; offset < tensor.bytes; offset += buffer.size()) {
    const std::uint64_t size = std::min<std::uint64_t>(tensor.bytes - offset, buffer.size());
    const std::span<std::byte> piece = std::span(buffer).first(size);
    SLUICE_RETURN_IF_ERROR(file.Read(tensor, offset, piece));
    SLUICE_RETURN_IF_ERROR(writer.Write(number, offset, std::span(&piece, 1)));
  }
  return absl::OkStatus();
}

absl::Status Import(const std::string& path, const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(const auto file, io::SafetensorsReader::Open(path));
  const absl::StatusOr<StateDescription> state = DescribeFile(file->header());
  if (!state.ok()) return base::Annotate(state.status(), path);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<const io::SafetensorsEntry*> tensors,
                          MatchTensors(*file, *state));
  SLUICE_RETURN_IF_ERROR(CheckIsFree(directory));
  SLUICE_ASSIGN_OR_RETURN(std::vector<optim::SavedTensor> saved,
                          optim::TensorsOfLayout(SaveTextOf(*state, {}).layout));
  SLUICE_ASSIGN_OR_RETURN(const auto writer,
                          optim::StateWriter::Create(directory, std::move(saved)));
  Console console(Console::Mode::kText);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    console.ShowProgress("reading " + tensors[i]->name);
    SLUICE_RETURN_IF_ERROR(CopyTensor(*file, *tensors[i], i, *writer));
  }
  SLUICE_RETURN_IF_ERROR(writer->Commit(optim::WriteSaveText(SaveTextOf(*state, writer->sums()))));
  console.Print(fmt::format("imported step {}: {} tensors of {} parameters in {}\n",
                            state->step,
                            tensors.size(),
                            state->keys.size(),
                            StateFileIn(directory)));
  return console.status();
}

}  // namespace

int RunStateImport(std::span<const std::string> words) {
  return RunWordCommand({.usage = "sluice state import FILE.safetensors DIR",
                         .about = kImportAbout,
                         .flags = ImportFlagSpecs()},
                        words,
                        [](const Arguments& arguments) {
                          return Import(arguments.Value("FILE"), arguments.Value("DIR"));
                        });
}

}  // namespace sluice::tools
