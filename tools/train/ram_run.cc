#include "tools/train/ram_run.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/train/ram_child.h"

namespace sluice::tools {
namespace {

template <typename T>
absl::StatusOr<T> FromBytes(const std::string& bytes) {
  if (bytes.size() != sizeof(T)) return absl::InternalError("an answer has a wrong size");
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// The other side's state as a stream that is consumed in pieces of any size.
class StateStream {
 public:
  explicit StateStream(Channel& channel) : channel_(channel) {}

  /// The bytes that the other side has for this piece. Empty when it has another tensor here, or
  /// fewer bytes.
  absl::StatusOr<std::string> Next(const std::string& tensor,
                                   std::uint64_t offset,
                                   std::size_t bytes) {
    if (offset == 0) {
      SLUICE_ASSIGN_OR_RETURN(const Message message, channel_.Receive());
      if (message.type != MessageType::kTensor || message.payload != tensor) return std::string();
      rest_.clear();
    }
    while (rest_.size() < bytes) {
      SLUICE_ASSIGN_OR_RETURN(const Message message, channel_.Receive());
      if (message.type != MessageType::kChunk) return std::string();
      rest_ += message.payload;
    }
    std::string piece = rest_.substr(0, bytes);
    rest_.erase(0, bytes);
    return piece;
  }

 private:
  Channel& channel_;
  std::string rest_;
};

/// Where the piece differs from the other side's, as a sentence; empty when it does not.
std::string Difference(const std::string& tensor,
                       std::uint64_t offset,
                       std::span<const std::byte> mine,
                       const std::string& other) {
  if (other.size() != mine.size()) {
    return fmt::format("tensor {} at offset {} has no counterpart in the RAM run", tensor, offset);
  }
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

}  // namespace

absl::StatusOr<RamRun> RamRun::Start(const ConfigText& config, const gpt::Text& text) {
  const std::vector<std::string> words = {"train", kRamChildWord};
  SLUICE_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(words));
  SLUICE_RETURN_IF_ERROR(SendConfig(config, child.channel()));
  SLUICE_RETURN_IF_ERROR(SendText(text, child.channel()));
  SLUICE_RETURN_IF_ERROR(child.channel().Send(MessageType::kStart));
  SLUICE_ASSIGN_OR_RETURN(const std::string answer, child.channel().Expect(MessageType::kEnd));
  SLUICE_ASSIGN_OR_RETURN(const float val_loss, FromBytes<float>(answer));
  return RamRun(std::move(child), val_loss);
}

absl::StatusOr<std::vector<StepOutcome>> RamRun::RunSteps(int count) {
  const std::int32_t number = count;
  const std::string_view payload(reinterpret_cast<const char*>(&number), sizeof(number));
  SLUICE_RETURN_IF_ERROR(child_.channel().Send(MessageType::kRunSteps, payload));
  SLUICE_ASSIGN_OR_RETURN(const std::string answer, child_.channel().Expect(MessageType::kSteps));
  std::vector<StepOutcome> outcomes(static_cast<std::size_t>(count));
  if (answer.size() != outcomes.size() * sizeof(StepOutcome)) {
    return absl::InternalError("the RAM run made another number of steps");
  }
  std::memcpy(outcomes.data(), answer.data(), answer.size());
  return outcomes;
}

absl::StatusOr<double> RamRun::MeasureGemm() {
  SLUICE_RETURN_IF_ERROR(child_.channel().Send(MessageType::kMeasureGemm));
  SLUICE_ASSIGN_OR_RETURN(const std::string answer, child_.channel().Expect(MessageType::kGemm));
  return FromBytes<double>(answer);
}

absl::StatusOr<std::string> RamRun::CompareState(gpt::Trainer& trainer) {
  SLUICE_RETURN_IF_ERROR(child_.channel().Send(MessageType::kSendState));
  StateStream stream(child_.channel());
  std::string difference;
  SLUICE_RETURN_IF_ERROR(trainer.ForEachState(
      [&](const std::string& tensor, std::uint64_t offset, std::span<const std::byte> bytes) {
        if (!difference.empty()) return absl::OkStatus();
        const absl::StatusOr<std::string> other = stream.Next(tensor, offset, bytes.size());
        if (!other.ok()) return other.status();
        difference = Difference(tensor, offset, bytes, *other);
        return absl::OkStatus();
      }));
  if (!difference.empty()) return difference;
  const absl::StatusOr<std::string> end = child_.channel().Expect(MessageType::kEnd);
  return end.ok() ? absl::StatusOr<std::string>(difference) : end.status();
}

}  // namespace sluice::tools
