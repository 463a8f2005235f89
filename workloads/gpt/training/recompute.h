#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::gpt {

/// Fate of the activations that a layer's forward leaves for its backward.
enum class Recompute {
  kNone,  ///< all activations are kept
  kAll,   ///< the layer's input alone is kept; the forward runs again just before the backward
  /// Activations are kept until the caller of the trainer has measured steps and sets a choice.
  kPlanned,
};

/// Parses a choice by its name in a configuration. Errors: InvalidArgument that names the allowed
/// ones.
absl::StatusOr<Recompute> ParseRecompute(std::string_view name);

/// Flag per layer: its forward runs again before its backward. The choice changes no bit of the
/// results.
using RecomputeChoice = std::vector<bool>;

/// Suffix that the choice adds to the iteration keys of steps, since it changes their ops. It is
/// empty for no layer, ".recompute" for all, else it has the layers, as ".recompute.0-2,5".
std::string KeySuffix(const RecomputeChoice& choice);

}  // namespace sluice::gpt
