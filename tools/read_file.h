#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sluice::tools {

/// Receives a file piece by piece, front to back.
using PieceSink = std::function<void(std::string_view piece)>;

/// Reads a file that the user named, once and to its end, so that a pipe will do. Errors: NotFound,
/// PermissionDenied, InvalidArgument (a directory, or anything that cannot be read). Each names
/// the path.
absl::Status ReadFile(const std::string& path, const PieceSink& sink);

}  // namespace sluice::tools
