#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "sluice/units.h"

namespace sluice::sim {

/// Cuts text that comes in pieces into lines. Threads: externally synchronised.
class LineSplitter {
 public:
  /// Receives a line without its newline; an error ends the reading and is returned.
  using LineSink = std::function<absl::Status(std::string_view line, std::uint64_t number)>;
  struct Limits {
    Bytes line;
    Bytes text;
  };
  /// `file`: name of the file, for messages.
  LineSplitter(std::string file, Limits limits, LineSink sink);

  /// Takes the next text. Errors: ResourceExhausted (a line or the text is too long; names file and
  /// line), those of the sink.
  absl::Status Append(std::string_view text);
  /// Hands out the last line if no newline ended it. Errors: those of the sink.
  absl::Status Finish();

  /// Number of the line that is being read, from 1.
  std::uint64_t line_number() const { return number_; }

 private:
  absl::Status EndLine(std::string_view rest);
  absl::Status TooLong(std::string_view what) const;

  const std::string file_;
  const Limits limits_;
  const LineSink sink_;
  std::uint64_t number_ = 1;
  std::uint64_t text_bytes_ = 0;
  /// The beginning of a line whose end has not come yet.
  std::string begun_;
};

}  // namespace sluice::sim
