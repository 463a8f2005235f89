#pragma once

#include <span>
#include <string>

namespace sluice::tools {

/// `sluice state SUB-COMMAND [FLAG ...]`: saves of optimizers in an open form. Returns the exit
/// code.
int RunState(std::span<const std::string> words);

/// `sluice state export`: a save becomes a safetensors file.
int RunStateExport(std::span<const std::string> words);

/// `sluice state import`: a safetensors file becomes a save.
int RunStateImport(std::span<const std::string> words);

/// `sluice state show`: the contents of a save.
int RunStateShow(std::span<const std::string> words);

}  // namespace sluice::tools
