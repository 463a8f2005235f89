#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "sluice/units.h"
#include "tools/state/state.h"
#include "tools/state/state_save.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/word_command.h"

namespace sluice::tools {
namespace {

const std::vector<FlagSpec>& StateShowFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"DIR", FlagShape::kWord, "", "a directory with optimizer.sluice"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

constexpr const char* kShowAbout =
    "Tells what the save of an optimizer in DIR holds. Checksums of tensors are not compared.\n";

/// "3", or "1 to 3" where parameters began at different steps.
std::string StepsText(const std::vector<std::int64_t>& steps) {
  if (steps.empty()) return "none";
  const auto [least, most] = std::minmax_element(steps.begin(), steps.end());
  return *least == *most ? fmt::format("{}", *least) : fmt::format("{} to {}", *least, *most);
}

std::string GroupText(const StateDescription& state, std::size_t index, std::size_t first) {
  const optim::LayoutGroup& group = state.layout.groups[index];
  std::uint64_t elements = 0;
  for (const optim::LayoutParameter& parameter : group.parameters) elements += parameter.count;
  const auto begin = state.steps.begin() + static_cast<std::ptrdiff_t>(first);
  const auto count = static_cast<std::ptrdiff_t>(group.parameters.size());
  return fmt::format("group {}: {} of {} elements, own steps {}, learning rate {}\n",
                     group.name,
                     base::Counted(group.parameters.size(), "parameter"),
                     elements,
                     StepsText({begin, begin + count}),
                     state.rates[index].learning_rate);
}

std::string StateText(const StateSave& save) {
  const StateDescription& state = save.description();
  std::uint64_t bytes = 0;
  for (const StateTensor& tensor : save.tensors()) bytes += tensor.bytes();
  std::string text = fmt::format("optimizer: {}, states {}, seed {}\nstep: {}\n",
                                 ToString(state.layout.kind),
                                 ToString(state.layout.state),
                                 state.layout.seed,
                                 state.step);
  text += fmt::format("tensors: {}, for {}, {}\n",
                      save.tensors().size(),
                      base::Counted(state.keys.size(), "parameter"),
                      ToString(Bytes(bytes)));
  std::size_t first = 0;
  for (std::size_t g = 0; g < state.layout.groups.size(); ++g) {
    text += GroupText(state, g, first);
    first += state.layout.groups[g].parameters.size();
  }
  return text + fmt::format("note: {}\n", state.note);
}

absl::Status ShowState(const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<StateSave> save, StateSave::Open(directory));
  Console console(Console::Mode::kText);
  console.Print(StateText(*save));
  return console.status();
}

}  // namespace

int RunStateShow(std::span<const std::string> words) {
  return RunWordCommand(
      {.usage = "sluice state show DIR", .about = kShowAbout, .flags = StateShowFlagSpecs()},
      words,
      [](const Arguments& arguments) { return ShowState(arguments.Value("DIR")); });
}

}  // namespace sluice::tools
