#include "workloads/gpt/update_ops.h"

#include <algorithm>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "workloads/gpt/op_draft.h"

namespace sluice::gpt {
namespace {

using Pieces = std::span<const std::span<std::byte>>;

/// Walks the pieces of one access.
class Cursor {
 public:
  explicit Cursor(Pieces pieces) : pieces_(pieces) { SkipEmpty(); }
  /// What is left of the current piece, in elements; 0 at the end.
  std::size_t left() const { return pieces_.empty() ? 0 : pieces_[0].size() / sizeof(float) - at_; }
  std::span<float> Take(std::size_t count) {
    auto* values = reinterpret_cast<float*>(pieces_[0].data()) + at_;
    at_ += count;
    SkipEmpty();
    return {values, count};
  }

 private:
  void SkipEmpty() {
    while (!pieces_.empty() && at_ * sizeof(float) == pieces_[0].size()) {
      pieces_ = pieces_.subspan(1);
      at_ = 0;
    }
  }
  Pieces pieces_;
  std::size_t at_ = 0;
};

/// Cuts the four accesses where any of them has a border. Elementwise, so the cuts change no bit.
void UpdatePieces(const optim::AdamWParams& params, const OpBuffers& b, std::size_t first) {
  Cursor p(b.Spans(first));
  Cursor g(b.Spans(first + 1));
  Cursor m(b.Spans(first + 2));
  Cursor v(b.Spans(first + 3));
  while (p.left() > 0) {
    const std::size_t count = std::min({p.left(), g.left(), m.left(), v.left()});
    optim::AdamWStep(params, p.Take(count), g.Take(count), m.Take(count), v.Take(count));
  }
}

}  // namespace

double UpdateOps::GradientScale(const Update& update) const {
  const double norm = update.gradient_norm;
  // As an OffloadedOptimizer does: by a norm that is none nothing is clipped.
  if (train_.clip_norm <= 0 || !(norm > train_.clip_norm)) return 1.0;
  return train_.clip_norm / norm;
}

OpSpec UpdateOps::MakeOp(std::string name, std::vector<Part> parts, const Update& update) const {
  OpDraft op(std::move(name));
  op.SetLane("cpu");
  for (const Part& part : parts) {
    const auto add = [&](const std::vector<TensorId>& tensors, AccessMode mode) {
      op.Add({.tensor = tensors[part.parameter],
              .range = part.range,
              .mode = mode,
              .tier = kDram0,
              .contiguous = false});
    };
    add(tensors_.values, AccessMode::kReadWrite);
    add(tensors_.gradients, AccessMode::kRead);
    add(tensors_.moments1, AccessMode::kReadWrite);
    add(tensors_.moments2, AccessMode::kReadWrite);
    const Parameter& parameter = parameters_.all[part.parameter];
    const std::uint64_t end = parameter.count() * sizeof(float);
    // Vectors share pages, and a discard acts on whole pages only.
    if (!parameter.is_vector() && part.range.offset + part.range.bytes == end) {
      op.Discard(tensors_.gradients[part.parameter]);
    }
  }
  return op.Finish([=, this](const OpBuffers& b) {
    const optim::AdamWOptions options{train_.beta1, train_.beta2, train_.eps};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool decays = !parameters_.all[parts[i].parameter].is_vector();
      const double decay = decays ? train_.weight_decay : 0.0;
      UpdatePieces(optim::MakeAdamWParams(
                       options, update.number, update.learning_rate, decay, GradientScale(update)),
                   b,
                   4 * i);
    }
  });
}

void UpdateOps::AppendMatrix(std::size_t parameter,
                             const Update& update,
                             std::vector<OpSpec>* ops) const {
  const Parameter& matrix = parameters_.all[parameter];
  const std::uint64_t bytes = matrix.count() * sizeof(float);
  for (std::uint64_t offset = 0; offset < bytes; offset += kRangeBytes) {
    const ByteRange range{offset, std::min(kRangeBytes, bytes - offset)};
    std::string name = fmt::format("update.{}.{}", matrix.name, offset / kRangeBytes);
    ops->push_back(MakeOp(std::move(name), {{parameter, range}}, update));
  }
}

OpSpec UpdateOps::MakeVectors(const Update& update) const {
  std::vector<Part> vectors;
  for (std::size_t i = 0; i < parameters_.all.size(); ++i) {
    const Parameter& parameter = parameters_.all[i];
    if (parameter.is_vector()) vectors.push_back({i, {0, parameter.count() * sizeof(float)}});
  }
  return MakeOp("update.vectors", std::move(vectors), update);
}

UpdateStages UpdateOps::Make(const Update& update) const {
  UpdateStages stages(1 + parameters_.layers.size());
  AppendMatrix(parameters_.tokens, update, &stages[0]);
  AppendMatrix(parameters_.positions, update, &stages[0]);
  stages[0].push_back(MakeVectors(update));
  for (std::size_t layer = 0; layer < parameters_.layers.size(); ++layer) {
    const LayerParameters& p = parameters_.layers[layer];
    for (const std::size_t matrix : {p.qkv_weight, p.out_weight, p.fc_weight, p.proj_weight}) {
      AppendMatrix(matrix, update, &stages[layer + 1]);
    }
  }
  return stages;
}

}  // namespace sluice::gpt
