#include "runtime/optim/optimizer/step_gradients.h"

#include "runtime/optim/optimizer/errors.h"

namespace sluice::optim {

absl::Status StepGradients::Add(const std::deque<ParameterEntry>& entries,
                                std::span<const std::uint32_t> group) {
  absl::Status shared;
  std::size_t looked_at = 0;
  for (; looked_at < group.size() && shared.ok(); ++looked_at) {
    const std::uint32_t index = group[looked_at];
    const GradientBinding& gradient = *entries[index].gradient;
    if (gradient.tensor == TensorId()) continue;
    const auto [at, is_new] = entry_of_.try_emplace(gradient.tensor.value, index);
    const ParameterEntry& other = entries[at->second];
    // A step that was given up may have left the tensor, and the other one another gradient since.
    const bool has_it = other.gradient && other.gradient->tensor == gradient.tensor;
    if (!is_new && !has_it) at->second = index;
    const bool shares = has_it && at->second != index;
    if (!shares || !(gradient.discard || other.gradient->discard)) continue;
    shared = NotReady(
        "the gradients of '{}' and '{}' are one tensor, which an update discards; bind it "
        "to both without discard",
        other.name,
        entries[index].name);
  }
  if (shared.ok()) return shared;
  for (std::size_t i = 0; i < looked_at; ++i) {
    const auto at = entry_of_.find(entries[group[i]].gradient->tensor.value);
    if (at != entry_of_.end() && at->second == group[i]) entry_of_.erase(at);
  }
  return shared;
}

}  // namespace sluice::optim
