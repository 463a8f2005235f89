#include "runtime/sim/files/line_splitter.h"

#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::sim {

LineSplitter::LineSplitter(std::string file, Limits limits, LineSink sink)
    : file_(std::move(file)), limits_(limits), sink_(std::move(sink)) {}

absl::Status LineSplitter::TooLong(std::string_view what) const {
  return absl::ResourceExhaustedError(fmt::format("{}:{}: {}", file_, number_, what));
}

absl::Status LineSplitter::Append(std::string_view text) {
  text_bytes_ += text.size();
  if (text_bytes_ > limits_.text.count()) {
    return TooLong(fmt::format("the text is too long; at most {} are read: split the file",
                               ToString(limits_.text)));
  }
  for (;;) {
    const std::size_t end = text.find('\n');
    const std::string_view part = text.substr(0, end);
    if (begun_.size() + part.size() > limits_.line.count()) {
      return TooLong(
          fmt::format("the line is longer than {}; name a schedule file", ToString(limits_.line)));
    }
    if (end == std::string_view::npos) {
      begun_ += part;
      return absl::OkStatus();
    }
    SLUICE_RETURN_IF_ERROR(EndLine(part));
    text.remove_prefix(end + 1);
  }
}

absl::Status LineSplitter::EndLine(std::string_view rest) {
  if (begun_.empty()) {
    SLUICE_RETURN_IF_ERROR(sink_(rest, number_));
  } else {
    begun_ += rest;
    SLUICE_RETURN_IF_ERROR(sink_(begun_, number_));
    begun_.clear();
  }
  ++number_;
  return absl::OkStatus();
}

absl::Status LineSplitter::Finish() { return begun_.empty() ? absl::OkStatus() : EndLine(""); }

}  // namespace sluice::sim
