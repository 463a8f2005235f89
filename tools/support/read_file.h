#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "sluice/units.h"

namespace sluice::tools {

/// Receives a file piece by piece, front to back; an error ends the reading and is returned.
using PieceSink = std::function<absl::Status(std::string_view piece)>;

/// The name of standard input.
inline constexpr std::string_view kStandardInput = "-";

/// Reads a file that the user named, once and to its end, so that a pipe will do. A pipe that
/// nobody has open for writing is empty. kStandardInput is read until its end. Errors: NotFound,
/// PermissionDenied, InvalidArgument (a directory, a device, more than `bytes_max`, or anything
/// that cannot be read), each naming the path; the sink's.
absl::Status ReadFile(const std::string& path, Bytes bytes_max, const PieceSink& sink);

}  // namespace sluice::tools
