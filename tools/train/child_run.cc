#include "tools/train/child_run.h"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "tools/train/train_child.h"

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

}  // namespace

absl::StatusOr<ChildRun> ChildRun::Start(const ConfigText& config, const gpt::Text& text) {
  const std::vector<std::string> words = {"train", kRamChildWord};
  SLUICE_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(words));
  SLUICE_RETURN_IF_ERROR(SendConfig(config, child.channel()));
  SLUICE_RETURN_IF_ERROR(SendText(text, child.channel()));
  SLUICE_RETURN_IF_ERROR(child.channel().Send(MessageType::kStart));
  SLUICE_ASSIGN_OR_RETURN(const std::string answer, child.channel().Expect(MessageType::kEnd));
  SLUICE_ASSIGN_OR_RETURN(const float val_loss, ValueFrom<float>(answer));
  return ChildRun(std::move(child), val_loss);
}

absl::StatusOr<std::vector<StepOutcome>> ChildRun::RunSteps(int count) {
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

}  // namespace sluice::tools
