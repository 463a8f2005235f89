#include "tools/train/ram_run.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::tools {
namespace {

/// Where the pieces differ, as a sentence; empty when they do not. `mine` begins at `offset`.
std::string Difference(const std::string& tensor,
                       std::uint64_t offset,
                       std::span<const std::byte> mine,
                       std::string_view other) {
  const auto* const theirs = reinterpret_cast<const std::byte*>(other.data());
  const auto [mismatch, unused] = std::mismatch(mine.begin(), mine.end(), theirs);
  if (mismatch == mine.end()) return "";
  const auto at = static_cast<std::size_t>(mismatch - mine.begin());
  return fmt::format("tensor {} differs at offset {}: {:#04x}, in RAM {:#04x}",
                     tensor,
                     offset + at,
                     std::to_integer<int>(mine[at]),
                     std::to_integer<int>(theirs[at]));
}

/// The other side's state as a stream, compared with pieces of any size.
class StateStream {
 public:
  explicit StateStream(Channel& channel) : channel_(channel) {}

  /// See Difference; says also that the other side has another tensor here, or fewer bytes.
  absl::StatusOr<std::string> Compare(const std::string& tensor,
                                      std::uint64_t offset,
                                      std::span<const std::byte> mine) {
    if (offset == 0) {
      SLUICE_ASSIGN_OR_RETURN(const Message message, channel_.Receive());
      if (message.type != MessageType::kTensor || message.payload != tensor) {
        return NoCounterpart(tensor, offset);
      }
      chunk_.clear();
      used_ = 0;
    }
    while (!mine.empty()) {
      SLUICE_ASSIGN_OR_RETURN(const std::string_view theirs, Next(mine.size()));
      if (theirs.empty()) return NoCounterpart(tensor, offset);
      std::string difference = Difference(tensor, offset, mine.first(theirs.size()), theirs);
      if (!difference.empty()) return difference;
      mine = mine.subspan(theirs.size());
      offset += theirs.size();
    }
    return std::string();
  }

 private:
  static std::string NoCounterpart(const std::string& tensor, std::uint64_t offset) {
    return fmt::format("tensor {} at offset {} has no counterpart in the RAM run", tensor, offset);
  }

  /// At most `limit` of the bytes that come next; empty when the tensor has no more.
  absl::StatusOr<std::string_view> Next(std::size_t limit) {
    if (used_ == chunk_.size()) {
      SLUICE_ASSIGN_OR_RETURN(Message message, channel_.Receive());
      if (message.type != MessageType::kChunk) return std::string_view();
      chunk_ = std::move(message.payload);
      used_ = 0;
    }
    const std::string_view bytes = std::string_view(chunk_).substr(used_, limit);
    used_ += bytes.size();
    return bytes;
  }

  Channel& channel_;
  std::string chunk_;
  std::size_t used_ = 0;
};

}  // namespace

absl::StatusOr<RamRun> RamRun::Start(const ConfigText& config, const gpt::Text& text) {
  SLUICE_ASSIGN_OR_RETURN(ChildRun child, ChildRun::Start(config, text));
  return RamRun(std::move(child));
}

absl::StatusOr<double> RamRun::MeasureGemm() {
  SLUICE_RETURN_IF_ERROR(child_.channel().Send(MessageType::kMeasureGemm));
  SLUICE_ASSIGN_OR_RETURN(const std::string answer, child_.channel().Expect(MessageType::kGemm));
  return ValueFrom<double>(answer);
}

absl::StatusOr<std::string> RamRun::CompareState(gpt::Trainer& trainer) {
  SLUICE_RETURN_IF_ERROR(child_.channel().Send(MessageType::kSendState));
  StateStream stream(child_.channel());
  std::string difference;
  SLUICE_RETURN_IF_ERROR(trainer.ForEachState(
      [&](const std::string& tensor, std::uint64_t offset, std::span<const std::byte> bytes) {
        if (!difference.empty()) return absl::OkStatus();
        SLUICE_ASSIGN_OR_RETURN(difference, stream.Compare(tensor, offset, bytes));
        return absl::OkStatus();
      }));
  if (!difference.empty()) return difference;
  const absl::StatusOr<std::string> end = child_.channel().Expect(MessageType::kEnd);
  return end.ok() ? absl::StatusOr<std::string>(difference) : end.status();
}

}  // namespace sluice::tools
