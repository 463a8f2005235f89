#include "tools/support/word_command.h"

#include "absl/status/statusor.h"
#include "base/status.h"
#include "fmt/format.h"
#include "tools/support/exit_code.h"

namespace sluice::tools {
namespace {

absl::StatusOr<Arguments> ParseWords(const WordCommand& command,
                                     std::span<const std::string> words) {
  SLUICE_ASSIGN_OR_RETURN(Arguments arguments, Arguments::Parse(words, command.flags));
  for (const FlagSpec& flag : command.flags) {
    if (flag.shape != FlagShape::kWord || arguments.Has(flag.name)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} is missing, {}: {}", flag.name, flag.help, command.usage));
  }
  return arguments;
}

}  // namespace

int RunWordCommand(const WordCommand& command,
                   std::span<const std::string> words,
                   absl::FunctionRef<absl::Status(const Arguments&)> run) {
  if (AsksForHelp(words)) {
    fmt::print("Usage: {}\n\n{}\n{}", command.usage, command.about, DescribeFlags(command.flags));
    return kExitDone;
  }
  const absl::StatusOr<Arguments> arguments = ParseWords(command, words);
  if (!arguments.ok()) return Fail(arguments.status());
  const absl::Status status = run(*arguments);
  return status.ok() ? kExitDone : Fail(status);
}

}  // namespace sluice::tools
