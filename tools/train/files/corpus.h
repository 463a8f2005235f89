#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sluice/units.h"
#include "workloads/gpt/model/text.h"

namespace sluice::tools {

/// Limit of all files together. The text is held in memory, beside the budgets.
inline constexpr Bytes kTextBytesMax(std::uint64_t{1} << 30);

/// The text that a run trains on: bytes, whatever they mean.
struct Corpus {
  gpt::Text text;
  std::size_t files = 0;
  /// XXH3 (64 bits) of the bytes, in hexadecimal.
  std::string hash;
};

struct CorpusOptions {
  /// Files in the order given; none: the project's own sources and documents.
  std::vector<std::string> files;
  /// Source of the names, for messages: a flag or a key.
  std::string files_name = "--text";
  /// Directory from which the project's tree is searched upwards; then the working directory.
  std::string start_directory;
};

/// Reads the text. Errors: NotFound, PermissionDenied, InvalidArgument (those of ReadFile, an empty
/// file, more than kTextBytesMax, no project tree to fall back to). Each names the file.
absl::StatusOr<Corpus> LoadCorpus(const CorpusOptions& options);

}  // namespace sluice::tools
