#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "workloads/gpt/memory/memory.h"
#include "workloads/gpt/model/config.h"
#include "workloads/gpt/model/parameters.h"
#include "workloads/gpt/model/tensors.h"

namespace sluice {
class OffloadedOptimizer;
}

namespace sluice::gpt {

/// The lane of updates that run beside the other ops.
inline constexpr std::string_view kUpdateLane = "optimizer";

/// Prefix of the names of ops that update parameters in RAM.
inline constexpr std::string_view kUpdateOpPrefix = "update.";

/// The layer that stands for the embedding in Updater::Advance.
inline constexpr int kEmbedding = -1;

/// The ops of a layer's forward; each reads matrices of its own.
enum class ForwardOp : std::uint8_t { kQkv, kAttention, kMlp };

/// Place that a forward has reached.
struct ForwardPlace {
  int layer = kEmbedding;
  int group = 0;
  ForwardOp op = ForwardOp::kQkv;  ///< op of a layer's forward
};

/// One update of all parameters, with complete gradients.
struct Update {
  std::int64_t number = 0;  ///< number of the update, from 1
  double learning_rate = 0;
  double gradient_norm = 0;
};

/// Runs the updates of the parameters, each within the forward that follows or before it. All
/// implementations give the same bits. An error leaves the update half done.
/// Threads: externally synchronised.
class Updater {
 public:
  virtual ~Updater() = default;

  /// Tells that a layer's matrices have all their gradients for the next Add, with this learning
  /// rate. An updater that needs nothing else may begin to update them. REQUIRES: !pending().
  virtual absl::Status GradientsReady(int /*layer*/, double /*learning_rate*/) {
    return absl::OkStatus();
  }
  /// Ends the updates that GradientsReady has begun.
  virtual absl::Status FinishBegun() { return absl::OkStatus(); }
  /// Adds an update that is not done. REQUIRES: !pending().
  virtual void Add(const Update& update) = 0;
  virtual bool pending() const = 0;
  /// Starts the pending update, in the iteration that has begun by now.
  virtual absl::Status Start() = 0;
  /// Returns when the op of a forward that is about to be run may read its parameters. REQUIRES:
  /// layers in ascending order, groups within layers, ops within groups.
  virtual absl::Status Advance(const ForwardPlace& place) = 0;
  /// Whether updates have begun that no Add has told of yet.
  virtual bool begun() const { return false; }
  /// Does the missing part of the pending update, which has failed in part.
  virtual absl::Status Repeat() { return Complete(); }
  /// Completes the pending update.
  virtual absl::Status Complete() = 0;
  /// Seconds that Advance and Complete have waited for updates so far.
  virtual double stall_seconds() const { return 0; }
  /// The optimizer that makes the updates; null when none does.
  virtual OffloadedOptimizer* optimizer() { return nullptr; }
};

/// Parts that an Updater works on. Lifetime: all of them outlive the Updater.
struct UpdaterParts {
  const TrainConfig& train;
  const ParameterList& parameters;
  /// Parameters and gradients; moments are added.
  Tensors& tensors;
  Memory& memory;
};

/// Makes an updater that runs ops on the Memory, in the order of the other ops. Errors: those of
/// Memory.
absl::StatusOr<std::unique_ptr<Updater>> MakeOpUpdater(const UpdaterParts& parts);

/// Makes an updater with an OffloadedOptimizer of the Memory's Runtime, which works at the same
/// time as the forward. Errors: those of OffloadedOptimizer. REQUIRES: memory.runtime() != nullptr.
absl::StatusOr<std::unique_ptr<Updater>> MakeOffloadedUpdater(const UpdaterParts& parts);

}  // namespace sluice::gpt
