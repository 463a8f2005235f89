#include "tools/support/sub_command.h"

#include <cstdio>
#include <vector>

#include "base/strings.h"
#include "fmt/format.h"
#include "tools/support/exit_code.h"

namespace sluice::tools {
namespace {

std::string Usage(const char* command, std::span<const SubCommand> commands) {
  std::string text = fmt::format("Usage: {} SUB-COMMAND [FLAG ...]\n\nSub-commands:\n", command);
  for (const SubCommand& each : commands) {
    text += fmt::format("  {:<9} {}\n", each.name, each.help);
  }
  return text + fmt::format("\n{} SUB-COMMAND --help lists its flags.\n", command);
}

int Unknown(const char* command, std::span<const SubCommand> commands, const std::string& name) {
  std::vector<std::string> names;
  for (const SubCommand& each : commands) names.emplace_back(each.name);
  PrintError(fmt::format("\"{}\" is no sub-command of {}{} (--help lists them)",
                         name,
                         command,
                         base::DidYouMean(name, names)));
  return kExitUserError;
}

}  // namespace

int RunSubCommand(const char* command,
                  std::span<const SubCommand> commands,
                  std::span<const std::string> words) {
  if (words.empty()) {
    std::fputs(Usage(command, commands).c_str(), stderr);
    return kExitUserError;
  }
  const std::string& name = words.front();
  if (name == "--help" || name == "-h" || name == "help") {
    fmt::print("{}", Usage(command, commands));
    return kExitDone;
  }
  for (const SubCommand& each : commands) {
    if (name == each.name) return each.run(words.subspan(1));
  }
  return Unknown(command, commands, name);
}

}  // namespace sluice::tools
