// The values of parameters and moments: made, filled in by a program, and shown to it.

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "workloads/gpt/model/op_draft.h"
#include "workloads/gpt/model/random.h"
#include "workloads/gpt/model/status.h"
#include "workloads/gpt/training/trainer_impl.h"
#include "workloads/gpt/training/update_states.h"

namespace sluice::gpt {
namespace {

/// Bytes of a tensor in one op of a visit.
constexpr std::uint64_t kVisitBytes = std::uint64_t{1} << 20;

/// An op that overwrites a range of a tensor.
OpSpec Overwrite(const std::string& name,
                 TensorId tensor,
                 ByteRange range,
                 std::function<void(const OpBuffers&)> compute) {
  OpDraft op(name);
  op.SetLane("cpu");
  op.Add({.tensor = tensor,
          .range = range,
          .mode = AccessMode::kOverwrite,
          .tier = kDram0,
          .contiguous = false});
  return op.Finish(std::move(compute));
}

}  // namespace

OpSpec Trainer::Impl::Initialise(std::size_t index) const {
  const Parameter& parameter = parameters_.all[index];
  const TensorId tensor = tensors_.values[index];
  const auto compute = [this, &parameter, index](const OpBuffers& b) {
    const std::uint64_t stream = RandomBits(train_.seed, index);
    std::uint64_t element = 0;
    for (const std::span<std::byte> piece : b.Spans(0)) {
      auto* values = reinterpret_cast<float*>(piece.data());
      for (std::size_t i = 0; i < piece.size() / sizeof(float); ++i, ++element) {
        values[i] = parameter.initial_mean;
        if (parameter.initial_deviation != 0) {
          values[i] += parameter.initial_deviation * RandomNormal(stream, element);
        }
      }
    }
  };
  return Overwrite("initialise." + parameter.name, tensor, kWholeTensor, compute);
}

absl::Status Trainer::Impl::FillParameters(const ParameterFill& fill) {
  if (step_ > 0) return absl::FailedPreconditionError("steps have been made already");
  absl::Status filled;
  for (std::size_t i = 0; i < parameters_.all.size(); ++i) {
    const std::uint64_t bytes = parameters_.all[i].count() * sizeof(float);
    for (std::uint64_t begin = 0; begin < bytes && filled.ok(); begin += kVisitBytes) {
      const ByteRange range{begin, std::min(kVisitBytes, bytes - begin)};
      GPT_RETURN_IF_ERROR(
          Run(Overwrite("fill." + parameters_.all[i].name,
                        tensors_.values[i],
                        range,
                        [&, i, begin](const OpBuffers& b) {
                          std::uint64_t element = begin / sizeof(float);
                          for (const std::span<std::byte> piece : b.Spans(0)) {
                            const std::size_t count = piece.size() / sizeof(float);
                            auto* const values = reinterpret_cast<float*>(piece.data());
                            if (filled.ok())
                              filled = fill(parameters_.all[i].name, element, {values, count});
                            element += count;
                          }
                        })));
      GPT_RETURN_IF_ERROR(Flush());
    }
  }
  return filled.ok() ? filled : Note(filled);
}

absl::Status Trainer::Impl::VisitParameters(const StateVisitor& visit) {
  GPT_RETURN_IF_ERROR(LeaveIteration());
  for (std::size_t i = 0; i < parameters_.all.size(); ++i) {
    const Parameter& parameter = parameters_.all[i];
    GPT_RETURN_IF_ERROR(
        Visit(parameter.name, tensors_.values[i], parameter.count() * sizeof(float), visit));
  }
  return absl::OkStatus();
}

absl::Status Trainer::Impl::VisitMoments(const StateVisitor& visit) {
  GPT_RETURN_IF_ERROR(LeaveIteration());
  for (std::size_t s = 0; s < tensors_.moments.size(); ++s) {
    const std::string suffix = kMomentSuffixes[s];
    for (std::size_t i = 0; i < parameters_.all.size(); ++i) {
      const Parameter& parameter = parameters_.all[i];
      const std::uint64_t bytes = MomentBytes(parameter, train_.states);
      GPT_RETURN_IF_ERROR(Visit(parameter.name + suffix, tensors_.moments[s][i], bytes, visit));
    }
    for (std::size_t i = 0; i < tensors_.scales[s].size(); ++i) {
      const Parameter& parameter = parameters_.all[i];
      GPT_RETURN_IF_ERROR(Visit(parameter.name + suffix + kScaleSuffix,
                                tensors_.scales[s][i],
                                ScaleBytes(parameter),
                                visit));
    }
  }
  return absl::OkStatus();
}

absl::Status Trainer::Impl::Visit(const std::string& name,
                                  TensorId tensor,
                                  std::uint64_t bytes,
                                  const StateVisitor& visit) {
  absl::Status visited;
  for (std::uint64_t begin = 0; begin < bytes; begin += kVisitBytes) {
    const ByteRange range{begin, std::min(kVisitBytes, bytes - begin)};
    OpDraft op("read." + name);
    op.SetLane("cpu");
    op.Add({.tensor = tensor, .range = range, .tier = kDram0, .contiguous = false});
    GPT_RETURN_IF_ERROR(Run(op.Finish([&, begin](const OpBuffers& b) {
      std::uint64_t offset = begin;
      for (const std::span<std::byte> piece : b.Spans(0)) {
        if (visited.ok()) visited = visit(name, offset, piece);
        offset += piece.size();
      }
    })));
  }
  GPT_RETURN_IF_ERROR(Flush());
  return visited;
}

}  // namespace sluice::gpt
