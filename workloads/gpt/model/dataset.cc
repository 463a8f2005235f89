#include "workloads/gpt/model/dataset.h"

#include <utility>

#include "fmt/format.h"
#include "workloads/gpt/model/random.h"

namespace sluice::gpt {
namespace {

// Streams of random numbers: one per training step, one per validation batch.
constexpr std::uint64_t kTrainStream = 0;
constexpr std::uint64_t kValidationStream = std::uint64_t{1} << 40;

}  // namespace

Dataset::Dataset(Text text, std::size_t split, const TrainConfig& train, const ModelConfig& model)
    : text_(std::move(text)),
      split_(split),
      sequences_(static_cast<std::size_t>(train.batch)),
      context_(static_cast<std::size_t>(model.context)),
      vocab_(static_cast<std::size_t>(model.vocab)),
      seed_(train.seed) {}

absl::StatusOr<Dataset> Dataset::FromBytes(std::string_view bytes,
                                           const TrainConfig& train,
                                           const ModelConfig& model) {
  Text text;
  text.Append(bytes);
  return FromText(std::move(text), train, model);
}

absl::StatusOr<Dataset> Dataset::FromText(Text text,
                                          const TrainConfig& train,
                                          const ModelConfig& model) {
  if (absl::Status status = Check(model, train); !status.ok()) return status;
  const std::size_t window = static_cast<std::size_t>(model.context) + 1;
  // Validation gets at least one window, however small its share is. The rest must hold one, too.
  const auto share =
      static_cast<std::size_t>(static_cast<double>(text.size()) * train.val_fraction);
  const std::size_t validation = std::max(share, window);
  if (text.size() < validation + window) {
    return absl::InvalidArgumentError(fmt::format(
        "the text has {} bytes, but a context of {} with validation on {} of it needs at least {}",
        text.size(),
        model.context,
        train.val_fraction,
        share > window
            ? static_cast<std::size_t>(static_cast<double>(window) / (1.0 - train.val_fraction)) + 1
            : 2 * window));
  }
  const std::size_t split = text.size() - validation;
  return Dataset(std::move(text), split, train, model);
}

Batch Dataset::BatchOf(std::uint64_t stream, Part part) const {
  const std::size_t starts = part.end - part.begin - context_;
  Batch batch;
  batch.inputs.reserve(sequences_ * context_);
  batch.targets.reserve(sequences_ * context_);
  std::vector<std::uint8_t> window(context_ + 1);
  for (std::size_t sequence = 0; sequence < sequences_; ++sequence) {
    const std::uint64_t counter = (stream << 16) + sequence;
    const std::size_t start = part.begin + RandomBits(seed_, counter) % starts;
    text_.CopyTo(start, window);
    for (std::uint8_t& id : window) id = static_cast<std::uint8_t>(id % vocab_);
    batch.inputs.insert(batch.inputs.end(), window.begin(), window.end() - 1);
    batch.targets.insert(batch.targets.end(), window.begin() + 1, window.end());
  }
  return batch;
}

Batch Dataset::TrainBatch(std::int64_t index) const {
  return BatchOf(kTrainStream + static_cast<std::uint64_t>(index), {0, split_});
}

Batch Dataset::ValidationBatch(int index) const {
  return BatchOf(kValidationStream + static_cast<std::uint64_t>(index), {split_, text_.size()});
}

}  // namespace sluice::gpt
