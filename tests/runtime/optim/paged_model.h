#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/optim/kernels/kernel.h"
#include "sluice/optimizer.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {

/// Place of a gradient, a copy or a parameter. kMaster: a parameter is in memory, in the type of
/// the spec's copy, and has a master.
enum class Storage { kMemory, kTensor, kMaster };

/// Parameters, held twice: paged, under an optimizer, and in plain memory, updated by one kernel
/// call per tensor and step. Both must stay the same, byte for byte.
class PagedModel {
 public:
  struct Options {
    KernelSpec spec;
    std::vector<std::vector<std::size_t>> groups;  ///< elements of each parameter
    OptimizerOptions optimizer;
    Storage parameters = Storage::kTensor;
    Storage gradients = Storage::kMemory;
    Storage copies = Storage::kMemory;
    bool discard = false;  ///< true: gradients in tensors are discarded after their use
    std::uint64_t seed = 1;
  };
  /// `runtime` has been started and outlives it.
  PagedModel(sluice::testing::RuntimeFixture& runtime, const Options& options);

  OffloadedOptimizer& optimizer() { return *optimizer_; }
  GroupId group(std::size_t i) const { return groups_[i]; }
  std::size_t groups() const { return groups_.size(); }
  TensorId parameter(std::size_t i) const { return entries_[i].tensor; }
  TensorId gradient(std::size_t i) const { return entries_[i].gradient; }
  std::size_t parameters() const { return entries_.size(); }
  TensorRun& run(std::size_t i) { return entries_[i].run; }
  /// The memory of a parameter that is not a tensor.
  std::span<std::byte> memory(std::size_t i) { return entries_[i].memory; }
  const GroupRates& rates() const { return rates_; }

  /// Adds one more group, as a program does after some steps. Its parameters count their own steps.
  void AddLateGroup(const std::vector<std::size_t>& counts);

  /// Sets new gradients of about `size`, on both sides.
  void SetGradients(std::uint64_t seed, float size = 0.1f);
  /// Puts the gradients of run() where the optimizer finds them.
  void PublishGradients();
  /// Makes a step of the optimizer, and waits for it.
  absl::StatusOr<OptimizerStep> Step(double loss_scale = 1);
  absl::StatusOr<OptimizerStep> Step(const StepOptions& options);
  /// Makes a step of these groups alone.
  absl::StatusOr<OptimizerStep> StepOf(const std::set<std::size_t>& groups);
  /// Makes the optimizer's step in plain memory; `scale` multiplies the gradients. Parameters of
  /// the groups in `sits_out` have no part in it.
  void ReferenceStep(std::int64_t step,
                     double scale = 1,
                     const std::set<std::size_t>& sits_out = {});
  /// The root of the sum of the squares of all gradients but those of the groups in `sits_out`.
  double GradientNorm(const std::set<std::size_t>& sits_out = {}) const;

  /// Every byte that the optimizer keeps or writes, in the order of the reference's.
  std::vector<std::vector<std::byte>> Paged();
  std::vector<std::vector<std::byte>> Reference() const;
  /// Overwrites the copies behind the optimizer's back.
  void SpoilCopies();
  /// Creates the optimizer anew; its states are zeros then.
  void Recreate();

 private:
  struct Entry {
    TensorRun run;
    std::int64_t steps_before = 0;  ///< steps of the optimizer without the parameter
    TensorId tensor;                ///< id of the parameter
    std::vector<std::byte> memory;  ///< memory of a parameter that is not a tensor
    TensorId gradient;
    TensorId copy;
    std::vector<std::byte> gradient_bytes;
    std::vector<std::byte> copy_bytes;
  };
  void AddEntry(std::size_t count);
  void MakeParameter(Entry& entry, const std::string& name);
  void BindParameter(Entry& entry, const std::string& name);
  std::vector<std::byte> ParameterOf(const Entry& entry, const ParameterState& state);
  std::vector<std::byte> CopyOf(const Entry& entry);
  bool IsIn(const std::set<std::size_t>& groups, std::size_t entry) const;
  /// Gives the optimizer the next group, whose entries begin with `first`.
  void AddGroup(std::size_t first, std::size_t count);
  void Bind(Entry& entry);

  sluice::testing::RuntimeFixture& runtime_;
  Options options_;
  GroupRates rates_{.learning_rate = 1e-2, .beta2 = 0.99, .weight_decay = 0.1};
  std::vector<Entry> entries_;
  std::vector<GroupId> groups_;
  std::unique_ptr<OffloadedOptimizer> optimizer_;
};

}  // namespace sluice::optim
