#pragma once

#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tools/support/arguments.h"

namespace sluice::tools {

/// A sub-command of words and flags. All of its words are required.
struct WordCommand {
  const char* usage = "";  ///< synopsis: "sluice state show DIR"
  const char* about = "";  ///< text of the help, with its newlines
  std::span<const FlagSpec> flags;
};

/// Prints help, or parses the words and calls `run`. Returns the exit code.
int RunWordCommand(const WordCommand& command,
                   std::span<const std::string> words,
                   absl::FunctionRef<absl::Status(const Arguments&)> run);

}  // namespace sluice::tools
