#include "tools/train/run/train_child.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "tools/support/exit_code.h"
#include "tools/train/files/initial_weights.h"
#include "tools/train/run/channel.h"
#include "tools/train/run/child_process.h"
#include "tools/train/run/steps.h"
#include "tools/train/settings/train_settings.h"
#include "workloads/gpt/memory/ram_memory.h"
#include "workloads/gpt/training/trainer.h"
#include "workloads/gpt/training/updater.h"

namespace sluice::tools {
namespace {

/// Variable for tests of --verify only. It names a tensor whose first byte has its lowest bit
/// flipped on the way; "loss" names the losses.
constexpr const char* kFlipVariable = "SLUICE_TEST_VERIFY_FLIP";

bool Flips(std::string_view what) {
  const char* const name = std::getenv(kFlipVariable);
  return name != nullptr && what == name;
}

/// The paged run holds one chunk at a time, outside of its budgets.
constexpr std::size_t kChunkBytesMax = std::size_t{256} << 10;

class TrainChild {
 public:
  explicit TrainChild(Channel& channel) : channel_(channel) {}

  /// Answers messages until the other end closes the channel.
  absl::Status Serve() {
    for (;;) {
      absl::StatusOr<Message> message = channel_.Receive();
      if (absl::IsUnavailable(message.status())) return absl::OkStatus();
      if (!message.ok()) return message.status();
      SLUICE_RETURN_IF_ERROR(Answer(*std::move(message)));
    }
  }

 private:
  absl::Status Answer(Message message) {
    if (trainer_ == nullptr) return Prepare(std::move(message));
    switch (message.type) {
      case MessageType::kRunSteps:
        return RunSteps(message.payload);
      case MessageType::kSendState:
        return SendState();
      default:
        return absl::InternalError("the other run was sent what it does not know");
    }
  }

  absl::Status Prepare(Message message) {
    switch (message.type) {
      case MessageType::kSource:
        config_.source = std::move(message.payload);
        return absl::OkStatus();
      case MessageType::kConfig:
        config_.text = std::move(message.payload);
        return absl::OkStatus();
      case MessageType::kSet:
        config_.assignments.push_back(std::move(message.payload));
        return absl::OkStatus();
      case MessageType::kText:
        text_.Append(message.payload);
        return absl::OkStatus();
      case MessageType::kInit:
        init_path_ = std::move(message.payload);
        return absl::OkStatus();
      case MessageType::kStart:
        return SetUp();
      default:
        return absl::InternalError("the other run has not been started yet");
    }
  }

  absl::Status SetUp() {
    SLUICE_ASSIGN_OR_RETURN(settings_, ReadTrainSettings(config_));
    // RAM holds every activation: what recomputing costs is a part of the slowdown.
    settings_.train.recompute = gpt::Recompute::kNone;
    SLUICE_ASSIGN_OR_RETURN(
        data_, gpt::Dataset::FromText(std::move(text_), settings_.train, settings_.model));
    SLUICE_RETURN_IF_ERROR(MakeTrainer());
    // The other run validates before its first step, too.
    SLUICE_ASSIGN_OR_RETURN(const float val_loss, trainer_->Validate());
    return channel_.Send(MessageType::kEnd, PayloadOf(val_loss));
  }

  absl::Status MakeTrainer() {
    memory_.SetObserver([this](const gpt::OpTiming& timing) {
      if (!timing.name.starts_with(gpt::kUpdateOpPrefix)) return;
      update_seconds_ += std::chrono::duration<double>(timing.end - timing.begin).count();
    });
    SLUICE_ASSIGN_OR_RETURN(
        trainer_, gpt::Trainer::Create(settings_.model, settings_.train, *data_, memory_));
    if (init_path_.empty()) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(const InitialWeights weights,
                            InitialWeights::Open(init_path_, settings_.model));
    return weights.Fill(*trainer_);
  }

  absl::Status RunSteps(const std::string& payload) {
    SLUICE_ASSIGN_OR_RETURN(const auto count, ValueFrom<std::int32_t>(payload));
    std::string outcomes;
    for (std::int32_t i = 0; i < count; ++i) {
      StepOutcome outcome;
      const gpt::UpdateTime update = UpdateTimeOfNext(*trainer_, settings_.train);
      SLUICE_RETURN_IF_ERROR(TrainOnce(*trainer_, update, &outcome).status());
      outcome.update_seconds = std::exchange(update_seconds_, 0);
      SLUICE_RETURN_IF_ERROR(ValidateIfDue(*trainer_, settings_.train, &outcome));
      if (Flips("loss")) outcome.loss = std::nextafter(outcome.loss, 0.0F);
      outcomes += PayloadOf(outcome);
    }
    return channel_.Send(MessageType::kSteps, outcomes);
  }

  absl::Status SendState() {
    const absl::Status sent = trainer_->ForEachState(
        [this](const std::string& tensor, std::uint64_t offset, std::span<const std::byte> bytes) {
          return SendPiece(tensor, offset, bytes);
        });
    SLUICE_RETURN_IF_ERROR(sent);
    return channel_.Send(MessageType::kEnd);
  }

  absl::Status SendPiece(const std::string& tensor,
                         std::uint64_t offset,
                         std::span<const std::byte> bytes) {
    if (offset == 0) SLUICE_RETURN_IF_ERROR(channel_.Send(MessageType::kTensor, tensor));
    const bool flips = offset == 0 && Flips(tensor);
    for (std::size_t begin = 0; begin < bytes.size(); begin += kChunkBytesMax) {
      const auto piece = bytes.subspan(begin, std::min(kChunkBytesMax, bytes.size() - begin));
      std::string chunk(reinterpret_cast<const char*>(piece.data()), piece.size());
      if (flips && begin == 0) chunk[0] ^= 1;
      SLUICE_RETURN_IF_ERROR(channel_.Send(MessageType::kChunk, chunk));
    }
    return absl::OkStatus();
  }

  Channel& channel_;
  ConfigText config_;
  TrainSettings settings_;
  gpt::Text text_;
  std::string init_path_;
  std::optional<gpt::Dataset> data_;
  gpt::RamMemory memory_;
  std::unique_ptr<gpt::Trainer> trainer_;  ///< null until all has been set up
  double update_seconds_ = 0;              ///< update time of the step that runs
};

}  // namespace

int RunTrainChild() {
  BecomeChild();
  Channel channel(STDIN_FILENO);
  const absl::Status status = TrainChild(channel).Serve();
  if (status.ok()) return kExitDone;
  const absl::Status sent = channel.SendError(status);
  return sent.ok() ? ExitCodeOf(status) : Fail(status);
}

}  // namespace sluice::tools
