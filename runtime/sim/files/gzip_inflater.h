#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sluice::sim {

/// Receives text piece by piece; an error ends the reading and is returned.
using TextSink = std::function<absl::Status(std::string_view text)>;

/// Turns a gzip file, of one member or several, into its text, in pieces of at most 64 KiB however
/// large it becomes. Threads: externally synchronised.
class GzipInflater {
 public:
  /// `file`: name of the file, for messages.
  GzipInflater(std::string file, TextSink sink);
  ~GzipInflater();
  GzipInflater(const GzipInflater&) = delete;
  GzipInflater& operator=(const GzipInflater&) = delete;

  /// Inflates the next bytes. Errors: InvalidArgument (damaged: names the file and the byte),
  /// ResourceExhausted, those of the sink. REQUIRES: no earlier call had an error.
  absl::Status Append(std::string_view bytes);
  /// Ends the file. Errors: InvalidArgument (the file ends within a member).
  absl::Status Finish() const;

 private:
  struct Stream;
  absl::Status Step(std::string_view* bytes);
  absl::Status Damaged() const;

  const std::string file_;
  const TextSink sink_;
  std::unique_ptr<Stream> stream_;
  std::uint64_t consumed_ = 0;
  bool between_members_ = false;
};

}  // namespace sluice::sim
