#pragma once

#include <string>

namespace sluice::tools {

/// The first line of a small text file; empty when it cannot be read.
std::string ReadLine(const std::string& path);
/// The word that the kernel puts in brackets: "madvise" of "always [madvise] never".
std::string Bracketed(const std::string& line);

}  // namespace sluice::tools
