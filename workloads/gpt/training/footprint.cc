#include "workloads/gpt/training/footprint.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/gpt/memory/memory.h"
#include "workloads/gpt/model/dataset.h"
#include "workloads/gpt/model/status.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::gpt {
namespace {

constexpr std::uint64_t kTensorAlignment =
    64;  // alignment of tensors in a segment (Runtime::CreateTensors)

/// Pages [first, second).
using PageBounds = std::pair<std::uint64_t, std::uint64_t>;
using Runs = std::vector<PageBounds>;

std::uint64_t CountOnce(Runs runs) {
  std::sort(runs.begin(), runs.end());
  std::uint64_t pages = 0;
  std::uint64_t reached = 0;
  for (const auto& [first, end] : runs) {
    if (end > std::max(first, reached)) pages += end - std::max(first, reached);
    reached = std::max(reached, end);
  }
  return pages;
}

/// Places tensors as a Runtime would, but holds no bytes and runs no compute function.
class CountingMemory : public Memory {
 public:
  explicit CountingMemory(std::uint64_t page_bytes) : page_bytes_(page_bytes) {}

  absl::StatusOr<std::vector<TensorId>> CreateTensors(std::span<const TensorSpec> specs) override {
    std::vector<TensorId> ids;
    std::uint64_t offset = 0;
    for (const TensorSpec& spec : specs) {
      offset = (offset + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
      const std::uint64_t bytes = SizeOf(spec).count();
      tensors_.push_back({.first_byte = next_page_ * page_bytes_ + offset, .bytes = bytes});
      ids.push_back(TensorId{tensors_.size()});
      offset += bytes;
      tensor_bytes_ += bytes;
    }
    next_page_ += (offset + page_bytes_ - 1) / page_bytes_;
    return ids;
  }
  absl::Status BeginIteration(std::string_view) override {
    ops_ = 0;
    page_accesses_ = 0;
    return absl::OkStatus();
  }
  absl::Status EndIteration() override { return absl::OkStatus(); }
  absl::Status Flush() override { return absl::OkStatus(); }
  void SetObserver(OpObserver) override {}
  Bytes page_bytes() const override { return Bytes(page_bytes_); }

  absl::Status Run(OpSpec op) override {
    ++ops_;
    Runs hbm;
    Runs dram;
    for (const Access& access : op.accesses) {
      (access.tier.value_or(kHbm0).kind == TierKind::kHbm ? hbm : dram).push_back(PagesOf(access));
      SetLive(access.tensor, access.mode != AccessMode::kRead);
    }
    const std::uint64_t hbm_pages = CountOnce(std::move(hbm));
    const std::uint64_t dram_pages = CountOnce(std::move(dram));
    hbm_.Note(hbm_pages, op.name);
    dram_.Note(dram_pages, op.name);
    page_accesses_ += hbm_pages + dram_pages;
    live_max_ = std::max(live_max_, live_);
    for (const auto& [tensor, range] : op.discards) SetDead(tensor);
    return absl::OkStatus();
  }

  Footprint Result() const {
    return {.op_hbm_max = Bytes(hbm_.pages * page_bytes_),
            .op_hbm_max_name = hbm_.op,
            .op_dram_max = Bytes(dram_.pages * page_bytes_),
            .op_dram_max_name = dram_.op,
            .live_max = Bytes(live_max_),
            .tensors = Bytes(tensor_bytes_),
            .padding = Bytes(next_page_ * page_bytes_ - tensor_bytes_)};
  }
  std::int64_t ops() const { return ops_; }
  std::uint64_t page_accesses() const { return page_accesses_; }

 private:
  struct Placed {
    std::uint64_t first_byte = 0;
    std::uint64_t bytes = 0;
    bool live = false;
  };
  /// The op with the most pages.
  struct Largest {
    std::uint64_t pages = 0;
    std::string op;

    void Note(std::uint64_t more, const std::string& name) {
      if (more <= pages) return;
      pages = more;
      op = name;
    }
  };

  PageBounds PagesOf(const Access& access) const {
    const Placed& tensor = tensors_[access.tensor.value - 1];
    const ByteRange range =
        access.range == kWholeTensor ? ByteRange{0, tensor.bytes} : access.range;
    const std::uint64_t begin = tensor.first_byte + range.offset;
    return {begin / page_bytes_, (begin + range.bytes + page_bytes_ - 1) / page_bytes_};
  }
  void SetLive(TensorId id, bool writes) {
    Placed& tensor = tensors_[id.value - 1];
    if (!writes || tensor.live) return;
    tensor.live = true;
    live_ += tensor.bytes;
  }
  void SetDead(TensorId id) {
    Placed& tensor = tensors_[id.value - 1];
    if (std::exchange(tensor.live, false)) live_ -= tensor.bytes;
  }

  const std::uint64_t page_bytes_;
  std::vector<Placed> tensors_;
  std::uint64_t next_page_ = 0;
  std::uint64_t tensor_bytes_ = 0;
  std::uint64_t live_ = 0;
  std::uint64_t live_max_ = 0;
  Largest hbm_;
  Largest dram_;
  std::int64_t ops_ = 0;
  std::uint64_t page_accesses_ = 0;
};

}  // namespace

absl::StatusOr<Footprint> MeasureFootprint(const ModelConfig& model,
                                           const TrainConfig& train,
                                           Bytes page_bytes) {
  GPT_RETURN_IF_ERROR(Check(model, train));
  const auto window = static_cast<std::size_t>(model.context) + 1;
  const auto text_bytes = static_cast<std::size_t>(
      static_cast<double>(2 * window) / std::min(train.val_fraction, 1 - train.val_fraction));
  GPT_ASSIGN_OR_RETURN(const Dataset data,
                       Dataset::FromBytes(std::string(text_bytes, ' '), train, model));
  CountingMemory memory(page_bytes.count());
  // All batches of a validation are alike.
  TrainConfig one_batch = train;
  one_batch.val_batches = 1;
  GPT_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                       Trainer::Create(model, one_batch, data, memory));
  GPT_RETURN_IF_ERROR(trainer->Validate().status());
  // Two steps: the moments live from the first update on, and all later steps are like the second.
  GPT_RETURN_IF_ERROR(trainer->Step(UpdateTime::kDeferred).status());
  GPT_RETURN_IF_ERROR(trainer->Step(UpdateTime::kDeferred).status());
  if (train.recompute == Recompute::kPlanned) {
    // A step that makes everything again. Any choice has ops of this step and those before alone,
    // and no more live bytes than those before.
    GPT_RETURN_IF_ERROR(
        trainer->SetRecompute(RecomputeChoice(static_cast<std::size_t>(model.layers), true)));
    GPT_RETURN_IF_ERROR(trainer->Step(UpdateTime::kDeferred).status());
  }
  Footprint footprint = memory.Result();
  footprint.ops_per_step = memory.ops();
  footprint.page_accesses_per_step = memory.page_accesses();
  return footprint;
}

}  // namespace sluice::gpt
