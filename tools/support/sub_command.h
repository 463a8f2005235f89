#pragma once

#include <span>
#include <string>

namespace sluice::tools {

/// One of the commands below a command: `lab` of `sluice`, `show` of `sluice lab`.
struct SubCommand {
  const char* name;
  const char* help;
  int (*run)(std::span<const std::string> words);
};

/// Runs the sub-command that the first word names, with the words after it, or prints help.
/// `command`: "sluice lab". Returns the exit code.
int RunSubCommand(const char* command,
                  std::span<const SubCommand> commands,
                  std::span<const std::string> words);

}  // namespace sluice::tools
