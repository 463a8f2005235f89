#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::gpt {

/// What becomes of the activations that a layer's forward leaves for its backward.
enum class Recompute {
  kNone,  ///< all are kept
  kAll,   ///< only the layer's input is; its forward runs again just before its backward
  /// As kNone, until whoever trains has measured steps and sets a choice.
  kPlanned,
};

/// Its name in a configuration. Errors: InvalidArgument that names what is allowed.
absl::StatusOr<Recompute> ParseRecompute(std::string_view name);

/// By layer: whether its forward runs again before its backward. Which layers do changes no bit of
/// what is computed.
using RecomputeChoice = std::vector<bool>;

/// What the choice adds to the iteration keys of steps, since it changes their ops: nothing for no
/// layer, ".recompute" for all of them, else also which, as ".recompute.0-2,5".
std::string KeySuffix(const RecomputeChoice& choice);

}  // namespace sluice::gpt
