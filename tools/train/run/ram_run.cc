#include "tools/train/run/ram_run.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/train/run/train_child.h"

namespace sluice::tools {
namespace {

absl::Status SendConfig(const ConfigText& config, Channel& channel) {
  SLUICE_RETURN_IF_ERROR(channel.Send(MessageType::kSource, config.source));
  SLUICE_RETURN_IF_ERROR(channel.Send(MessageType::kConfig, config.text));
  for (const std::string& assignment : config.assignments) {
    SLUICE_RETURN_IF_ERROR(channel.Send(MessageType::kSet, assignment));
  }
  return absl::OkStatus();
}

absl::Status SendText(const gpt::Text& text, Channel& channel) {
  for (const gpt::Text::Chunk& chunk : text.chunks()) {
    const std::string_view bytes(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    SLUICE_RETURN_IF_ERROR(channel.Send(MessageType::kText, bytes));
  }
  return absl::OkStatus();
}

/// Difference of the pieces, as a sentence; empty when there is none. `mine` begins at `offset`.
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

  /// The next bytes, at most `limit` of them; empty when the tensor has no more.
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

absl::StatusOr<RamRun> RamRun::Start(const ConfigText& config,
                                     const gpt::Text& text,
                                     const std::string& init_path,
                                     const gpt::StopFn& stop) {
  const std::vector<std::string> words = {"train", kRamChildWord};
  SLUICE_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(words));
  child.channel().SetStop(stop);
  SLUICE_RETURN_IF_ERROR(SendConfig(config, child.channel()));
  SLUICE_RETURN_IF_ERROR(SendText(text, child.channel()));
  if (!init_path.empty()) {
    SLUICE_RETURN_IF_ERROR(child.channel().Send(MessageType::kInit, init_path));
  }
  SLUICE_RETURN_IF_ERROR(child.channel().Send(MessageType::kStart));
  SLUICE_ASSIGN_OR_RETURN(const std::string answer, child.channel().Expect(MessageType::kEnd));
  SLUICE_ASSIGN_OR_RETURN(const float val_loss, ValueFrom<float>(answer));
  return RamRun(std::move(child), val_loss);
}

absl::StatusOr<std::vector<StepOutcome>> RamRun::RunSteps(int count, const gpt::StopFn& stop) {
  channel().SetStop(stop);
  const std::int32_t number = count;
  SLUICE_RETURN_IF_ERROR(channel().Send(MessageType::kRunSteps, PayloadOf(number)));
  SLUICE_ASSIGN_OR_RETURN(const std::string answer, channel().Expect(MessageType::kSteps));
  std::vector<StepOutcome> outcomes(static_cast<std::size_t>(count));
  if (answer.size() != outcomes.size() * sizeof(StepOutcome)) {
    return absl::InternalError("the other run made another number of steps");
  }
  std::memcpy(outcomes.data(), answer.data(), answer.size());
  return outcomes;
}

absl::StatusOr<std::string> RamRun::CompareState(gpt::Trainer& trainer, const gpt::StopFn& stop) {
  channel().SetStop(stop);
  SLUICE_RETURN_IF_ERROR(channel().Send(MessageType::kSendState));
  StateStream stream(channel());
  std::string difference;
  SLUICE_RETURN_IF_ERROR(trainer.ForEachState(
      [&](const std::string& tensor, std::uint64_t offset, std::span<const std::byte> bytes) {
        if (!difference.empty()) return absl::OkStatus();
        SLUICE_ASSIGN_OR_RETURN(difference, stream.Compare(tensor, offset, bytes));
        return absl::OkStatus();
      }));
  if (!difference.empty()) return difference;
  const absl::StatusOr<std::string> end = channel().Expect(MessageType::kEnd);
  return end.ok() ? absl::StatusOr<std::string>(difference) : end.status();
}

}  // namespace sluice::tools
