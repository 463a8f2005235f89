#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/runtime.h"
#include "sluice/tensor.h"
#include "sluice/tier.h"
#include "sluice/units.h"

/// An optimizer whose parameters and states are paged:
///
///   auto optimizer = sluice::OffloadedOptimizer::Create(*runtime, {.clip_norm = 1});
///   auto group = (*optimizer)->AddGroup({.name = "all", .parameters = {weights}});
///   const auto bytes = std::as_bytes(std::span(gradient));
///   auto bound = (*optimizer)->BindGradient(weights, {.bytes = bytes});
///   // In every step, once the gradients are there:
///   auto ready = (*optimizer)->GradientReady(*group);
///   auto step = (*optimizer)->Step();              // returns at once
///   auto result = step->Wait();                    // or WaitFor(*group), just before its next use
///
/// examples/optimizer is a whole program. docs/optimizer.md explains types, budgets and failures,
/// and says how to choose. docs/optimizer-kernels.md has the formulas.

namespace sluice {

/// Formula of an update (docs/optimizer-kernels.md).
enum class OptimizerKind : std::uint8_t {
  kAdam,      ///< weight decay is part of the gradient
  kAdamW,     ///< weight decay acts on the parameter
  kSgd,       ///< momentum
  kNesterov,  ///< SGD with Nesterov momentum
  kLion,
  kAdagrad
};
/// Type of the optimizer's states.
enum class StateType : std::uint8_t { kFp32, kBf16, k8Bit };  ///< bf16: rounded stochastically

/// "adamw"; "fp32", "bf16", "8bit".
std::string_view ToString(OptimizerKind kind);
std::string_view ToString(StateType type);

/// The order in which a step goes through the parameters.
enum class SweepOrder : std::uint8_t {
  /// Forwards in one step, backwards in the next: pages that one leaves in dram are used first in
  /// the other. Best for a program that waits for the whole step.
  kAlternate,
  /// The order of AddGroup in every step: best for a forward that follows and waits group by group.
  kForward
};

/// Options of an optimizer, which hold for all of its groups. OffloadedOptimizer::Create checks
/// them, and its InvalidArgument names the wrong one.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  /// Type of all optimizer states.
  StateType state = StateType::kFp32;
  /// Lowest tiers that states, and accumulated gradients, may reach: kDram or kNvme.
  TierKind lowest = TierKind::kNvme;
  TierKind accumulator_lowest = TierKind::kDram;
  /// Type of accumulated gradients, kF32 or kBF16. Micro-batches are added up in dram in that type
  /// (bf16: each sum rounded to nearest). None: a step uses the bound gradients as they are.
  std::optional<DType> accumulate = std::nullopt;
  /// Largest global norm of the gradients, unscaled; larger ones are scaled down. 0: no clipping.
  double clip_norm = 0;
  /// A step whose gradient norm is infinite or NaN changes nothing. The norm that the optimizer
  /// finds is finite exactly where every gradient is.
  bool skip_not_finite = false;
  /// The caller knows the norm and gives it to every Step: of all ranks, say, or summed up as the
  /// gradients were made. The optimizer reads no gradients for it then. Needs clip_norm or
  /// skip_not_finite.
  bool norm_given = false;
  /// Seed of stochastic rounding.
  std::uint64_t seed = 0;
  SweepOrder order = SweepOrder::kAlternate;
  /// Threads that compute, the optimizer's own included, 1 to 256. The number changes no bit.
  int threads = 1;
  /// Updates whose pages are asked for ahead of the one that computes, at most 4096; 0: as many as
  /// the measured latency of reads needs.
  std::uint32_t depth = 0;
  /// Lane of the optimizer's ops, not empty.
  std::string lane = "optimizer";
};

/// Rates that may change from step to step. beta1 is SGD's momentum. An optimizer ignores the rates
/// that it does not use (docs/optimizer-kernels.md). Ranges: beta1 and beta2 in [0, 1), the others
/// in [0, 1e30).
struct GroupRates {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

/// A group: parameters whose gradients are complete at the same time, and their rates.
struct GroupOptions {
  /// Name of the group, unique in its optimizer.
  std::string name = {};
  /// fp32 or bf16 tensors of the Runtime, which outlive the optimizer, and ids of BindParameter.
  /// bf16 ones are rounded stochastically.
  std::vector<TensorId> parameters = {};
  GroupRates rates = {};
};

/// Number of a group in its optimizer, counted from 0.
struct GroupId {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(const GroupId&, const GroupId&) = default;
};

/// A parameter in the caller's memory, outside of every budget: only its states are paged. The
/// memory must stay until UnbindParameter, or until the optimizer is destroyed. The optimizer owns
/// it from the group's GradientReady on until the step is over, in Load, and while a save lacks
/// parts (SaveHandle::HasEveryPart).
struct ParameterBinding {
  std::string name = {};  ///< name in messages and saves, not empty
  DType type = DType::kF32;
  std::vector<std::int64_t> shape = {};  ///< elements per dimension, each at least 1; {}: a scalar
  std::span<std::byte> bytes = {};       ///< the elements, row-major
  /// An fp32 master ("NAME.master") is paged beside the states. An update changes the master, and
  /// writes it to the memory, rounded to nearest. f16 needs a master; bf16 is rounded
  /// stochastically without one. AddGroup and RefreshMaster take the master from the memory.
  bool master = false;
};

/// Place of a parameter's gradient: fp32, bf16 or fp16, as many elements as the parameter. The
/// place is the caller's memory, outside of every budget, or a tensor of the Runtime. The memory
/// must stay until the step is over, or until an earlier end:
/// - With `accumulate`: AddGradient or GradientReady returns.
/// - Without clip_norm and skip_not_finite: WaitFor of the group has succeeded.
struct GradientBinding {
  DType type = DType::kF32;
  std::span<const std::byte> bytes = {};
  TensorId tensor = {};
  /// Whether the tensor's content is dead once the parameter is updated, or later if a repeated
  /// step would read it again for the norm.
  bool discard = false;
};

/// Place of the bf16 or fp16 copy of an fp32 parameter: the caller's memory, outside of every
/// budget, or a tensor of the Runtime. The memory must stay until another is bound or the optimizer
/// goes. Updates write the copy in the same pass, Load and RefreshCopies from the parameters as
/// they are; nothing else does.
struct CopyBinding {
  DType type = DType::kBF16;
  std::span<std::byte> bytes = {};
  TensorId tensor = {};
};

/// Options of one step.
struct StepOptions {
  /// Divisor of the gradients, from 1e-75 to 1e75.
  double loss_scale = 1;
  /// Norm of all gradients as they are bound, before the division by loss_scale. norm_given needs
  /// it, and nothing else takes it. The norm is at least 0; infinite or NaN says that a gradient
  /// is.
  std::optional<double> gradient_norm = std::nullopt;
  /// Whether only the groups that are ready are updated, and the others sit this step out (frozen
  /// layers, experts that were not chosen). The others keep parameters, states, their own step
  /// counts, accumulated sums and bound gradients, and have no part in the norm.
  /// False: a group that is not ready is an error. A step that failed is repeated with the same
  /// groups.
  bool only_ready = false;
};

/// Report of a step that is over (StepHandle::Wait).
struct OptimizerStep {
  std::int64_t step = 0;  ///< number of the step, from 1; a skipped step's comes again
  /// Whether the norm was not finite, so that nothing has changed.
  bool skipped = false;
  std::uint32_t groups = 0;  ///< groups that took part
  /// Norm of all gradients, unscaled, before clipping. None without clip_norm and skip_not_finite.
  std::optional<double> gradient_norm;
  /// Time of the optimizer's thread in this step. See WaitTimes for what counts as which wait.
  double wait_seconds = 0;        ///< blocked for pages: the sum of the next two
  double wait_read_seconds = 0;   ///< blocked for pages that are read
  double wait_write_seconds = 0;  ///< blocked for frames that are written first
  double compute_seconds = 0;     ///< updating
  /// Time of that thread, blocked until a save (StartSave) had what the step was to update.
  double save_seconds = 0;
};

/// Facts that a save says of itself.
struct OptimizerSave {
  std::int64_t step = 0;  ///< step after which the save was made
  std::string note;       ///< text that Save was given
};

namespace internal {
class StepState;
class SaveState;
class OptimizerAccess;
}  // namespace internal

/// A step that runs. A default-constructed handle is of no step: Ready is true, Wait and WaitFor
/// fail with FailedPrecondition. Threads: any. Lifetime: may outlive the optimizer.
class StepHandle {
 public:
  StepHandle();
  StepHandle(const StepHandle&);
  StepHandle& operator=(const StepHandle&);
  StepHandle(StepHandle&&) noexcept;
  StepHandle& operator=(StepHandle&&) noexcept;
  ~StepHandle();

  /// Whether Wait would not block.
  bool Ready() const;
  /// Whether WaitFor would not block.
  bool Ready(GroupId group) const;
  /// Blocks until the step is over. Errors:
  /// - That of the first update that failed names its parameter and elements. All others were done.
  ///   The next Step does those that are missing, of the same step.
  /// - FailedPrecondition: a repeated step would be skipped, and is in part done.
  /// - Cancelled: the optimizer was destroyed.
  /// - DeadlineExceeded: the step goes on, and may be waited for again.
  /// A caller that waits while it holds leases on what the step needs waits for ever. The log names
  /// such a lease after RuntimeOptions::stall_seconds.
  absl::StatusOr<OptimizerStep> Wait(Ticket::Deadline deadline = Ticket::Deadline::max());
  /// Blocks until every parameter of the group is updated, so that it may be used while the others
  /// are not. Errors: of Wait, as far as they concern the group; InvalidArgument (no such group).
  absl::Status WaitFor(GroupId group, Ticket::Deadline deadline = Ticket::Deadline::max());

 private:
  friend class OffloadedOptimizer;
  explicit StepHandle(std::shared_ptr<internal::StepState> state);
  std::shared_ptr<internal::StepState> state_;
};

/// A save that is being written (OffloadedOptimizer::StartSave). A default-constructed handle is of
/// no save: it is ready, and Wait fails with FailedPrecondition. Threads: any. Lifetime: may
/// outlive the optimizer. Fork: in a child it is ready, and Wait fails with FailedPrecondition.
class SaveHandle {
 public:
  SaveHandle();
  SaveHandle(const SaveHandle&);
  SaveHandle& operator=(const SaveHandle&);
  SaveHandle(SaveHandle&&) noexcept;
  SaveHandle& operator=(SaveHandle&&) noexcept;
  ~SaveHandle();

  /// Whether the save needs no more bytes from tensors, or has failed. Such a save slows no later
  /// update, and Wait blocks for the disk at most.
  bool HasEveryPart() const;
  /// Whether Wait would not block, since the save has its name or has failed.
  bool Ready() const;
  /// Blocks until the save has its name and is on the disk. The call makes the optimizer write the
  /// parts that no step has written. A caller that waits while it holds a lease that writes a
  /// parameter or a state waits for ever.
  ///
  /// Errors, after which the older save is there and nothing else, unless only the sync of the new
  /// save's directory failed:
  /// - The first one of the save, of those that OffloadedOptimizer::Save names.
  /// - Cancelled: the save was given up, or the optimizer destroyed, before it had every part.
  absl::Status Wait();
  /// Gives the save up, unless it has every part: no later update is slowed by it, Wait fails with
  /// Cancelled, and the older save stays.
  void GiveUp();

 private:
  friend class OffloadedOptimizer;
  explicit SaveHandle(std::shared_ptr<internal::SaveState> state);
  std::shared_ptr<internal::SaveState> state_;
};

/// Elements of a parameter, [begin, begin + count).
struct ElementRange {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

/// Progress of a parameter.
struct ParameterState {
  /// The fp32 master of a ParameterBinding; none without it.
  TensorId master;
  /// States in order ("NAME.m", "NAME.v"), and the scales of 8-bit ones (an fp32 per 256).
  std::vector<TensorId> states;
  std::vector<TensorId> scales;
  /// The parameter's own steps that every element has made, counted from AddGroup.
  std::int64_t step = 0;
  /// Elements that have not reached the optimizer's step, and why.
  struct Missing {
    ElementRange elements;
    absl::Status why;
  };
  std::vector<Missing> missing;
};

/// Updates parameters of a Runtime by gradients, page by page in dram, with its states paged below.
///
/// A step: bind gradients once, then for each step call GradientReady for every group, as its
/// gradients are complete, and Step, which returns at once. A group's update starts at its
/// GradientReady without clip_norm and skip_not_finite. With them it starts at Step, once all
/// groups are ready or StepOptions::only_ready is set. The parameters of a group belong to the
/// optimizer from GradientReady on until the step is over.
///
/// Results are the same bits for any budget, page size, thread count and order, and with and
/// without paging. Each parameter is updated in parts, of at most a page of each tensor. A part
/// whose pages cannot be had stays as it was, whole, and the rest is done; the next Step does what
/// is missing.
///
/// A step is under way from its first GradientReady on until it is done or skipped. A step that
/// failed in part stays under way until a repeat has done the rest, or a Load has replaced it.
///
/// Threads: externally synchronised, handles aside. Lifetime: the runtime outlives it. Fork: every
/// call in a child fails with FailedPrecondition (step() is 0, handles are ready and fail).
/// Destructors do nothing there, and the parent goes on as if there were no child.
/// Ops run in a lane of their own, in whatever iteration is current.
class OffloadedOptimizer {
 public:
  /// Errors: InvalidArgument (names the option), ResourceExhausted (a thread cannot be started).
  static absl::StatusOr<std::unique_ptr<OffloadedOptimizer>> Create(
      Runtime& runtime, const OptimizerOptions& options);
  /// Waits for the update that computes, gives up the rest, frees states and accumulators.
  ~OffloadedOptimizer();
  OffloadedOptimizer(const OffloadedOptimizer&) = delete;
  OffloadedOptimizer& operator=(const OffloadedOptimizer&) = delete;

  /// Takes a parameter in the caller's memory. The id, which only this optimizer knows, goes to
  /// AddGroup and wherever a parameter is asked for. Errors:
  /// - InvalidArgument: no name, or a type, a master or a shape that no parameter has.
  /// - InvalidArgument: memory that is null, not aligned, of another size, or overlaps memory that
  ///   this optimizer has already. The message names both.
  absl::StatusOr<TensorId> BindParameter(const ParameterBinding& parameter);
  /// Forgets a bound parameter that is in no group: its memory may go. Errors: InvalidArgument (no
  /// bound parameter, or one of a group).
  absl::Status UnbindParameter(TensorId parameter);
  /// Creates the states of the group's parameters, zeros. A parameter counts its own steps from
  /// here on, however many the optimizer has done: bias correction and random bits depend on these.
  /// Errors, besides those of Runtime::CreateTensors:
  /// - InvalidArgument: the name of another group, no parameters, a rate out of range.
  /// - InvalidArgument: a parameter that has a group or another use in this optimizer, is neither
  ///   fp32 nor bf16, or cannot be in dram.
  /// - NotFound: an unknown tensor.
  /// - FailedPrecondition: a step is under way.
  /// - ResourceExhausted: dram has no room for an update beside the tensors that stay there.
  /// - Those of Ticket::Take, if a parameter has a master.
  absl::StatusOr<GroupId> AddGroup(const GroupOptions& options);
  /// Sets the rates from the next GradientReady on. Errors: InvalidArgument (no such group, a rate
  /// out of range), FailedPrecondition (the group's step is under way).
  absl::Status SetRates(GroupId group, const GroupRates& rates);
  /// Rates that AddGroup, SetRates or Load has set last. Errors: InvalidArgument (no such group).
  absl::StatusOr<GroupRates> Rates(GroupId group) const;

  /// Binds a gradient in place of an earlier one; nothing unbinds it. Several parameters may share
  /// one. Errors:
  /// - NotFound: an unknown tensor, as the parameter or the gradient.
  /// - InvalidArgument: a parameter of no group, another number or type of elements, no type of
  ///   gradients, or `discard` without a tensor.
  /// - InvalidArgument: neither memory nor a tensor, or memory that is null, not aligned for the
  ///   type, given beside a tensor, or shared with a parameter or a copy.
  /// - InvalidArgument: a tensor that this optimizer has as a parameter, a state or a copy, or that
  ///   cannot be in dram.
  /// - FailedPrecondition: the group's step is under way.
  absl::Status BindGradient(TensorId parameter, const GradientBinding& gradient);
  /// Binds a copy in place of an earlier one; nothing unbinds it. Errors: as BindGradient, and
  /// InvalidArgument for a type other than bf16 and f16, a bf16 parameter, one with a master, and a
  /// gradient's tensor or memory.
  absl::Status BindCopy(TensorId parameter, const CopyBinding& copy);
  /// Writes the group's bound copies from its parameters as they are now. Call it before the first
  /// forward, and after the program itself has written parameters. Blocks, for as long as the
  /// caller holds leases that write to them, too: release these first. Errors: InvalidArgument (no
  /// such group), FailedPrecondition (a step is under way), those of Ticket::Take (repeat it).
  absl::Status RefreshCopies(GroupId group);

  /// Adds the group's bound gradients to the accumulated ones; returns when that is done. Leave the
  /// last micro-batch out: GradientReady adds it, and would count it twice. Errors:
  /// - InvalidArgument: no such group.
  /// - FailedPrecondition: no `accumulate`, a parameter without a gradient or whose gradient was
  ///   freed, or the group's step is under way.
  /// - Those of Ticket::Take: the sums are partial. Call ResetGradient, and repeat each
  ///   micro-batch.
  absl::Status AddGradient(GroupId group);
  /// Forgets what was added. Errors: InvalidArgument (no such group), FailedPrecondition (no
  /// `accumulate`, or the group's step is under way).
  absl::Status ResetGradient(GroupId group);
  /// The group's gradients are complete: those that are bound, with `accumulate` added to the sum
  /// first, for which the call blocks. Errors: as AddGradient, but `accumulate` may be missing;
  /// also FailedPrecondition (a step was started without the group, and is not over).
  absl::Status GradientReady(GroupId group);

  /// Hints that the next step comes soon, and has these groups. The pages which it updates first
  /// come to dram, as many as fit into `at_most`, and stay until they are used. Give only groups
  /// that will have a gradient, and less than dram.
  ///
  /// Does not block for pages. Returns the bytes of the pages that it hints at, whether they are
  /// there or not. Errors: InvalidArgument (no such group), FailedPrecondition (a step is under
  /// way), those of Runtime::Prefetch.
  absl::StatusOr<Bytes> Prefetch(std::span<const GroupId> groups, Bytes at_most);
  /// Starts what is left of the step, or repeats what failed of it. The call waits for no page; a
  /// repeat waits for an answer of the Runtime's core thread. Errors:
  /// - FailedPrecondition: a group that is not ready (names it), no group is, or a step runs.
  /// - InvalidArgument: a loss scale out of its range, or one that is not 1 while updates start
  ///   early; no norm with norm_given, a norm without it, or one below 0.
  absl::StatusOr<StepHandle> Step(const StepOptions& options = {});
  /// Blocks until no update of the group is under way: until what GradientReady has started is
  /// over, for whoever has no StepHandle yet. Errors: FailedPrecondition (with clip_norm or
  /// skip_not_finite: what is ready starts at Step), those of StepHandle::WaitFor.
  absl::Status WaitFor(GroupId group, Ticket::Deadline deadline = Ticket::Deadline::max());
  /// Number of steps done. A skipped step does not count; Load sets the number of the save.
  std::int64_t step() const;
  /// Whether the next step goes from the last group to the first (SweepOrder). The caller's
  /// GradientReady decides the order of groups without clip_norm and skip_not_finite. Follow this
  /// there, so that pages which stayed in dram are used first.
  bool backwards() const;

  /// Progress of the parameter. Errors: NotFound (no parameter of a group).
  absl::StatusOr<ParameterState> State(TensorId parameter) const;
  /// Reads a state of the parameter, 0 for "NAME.m" and 1 for "NAME.v", as fp32 whatever its type.
  /// Blocks. Errors: NotFound (an unknown tensor), InvalidArgument (a parameter of no group, no
  /// such state, another number of elements), FailedPrecondition (a step is under way), those of
  /// Ticket::Take.
  absl::Status ReadState(TensorId parameter, std::size_t state, std::span<float> values);
  /// Writes what ReadState reads: bf16 rounded to nearest, 8-bit to the nearest code. Values that
  /// ReadState gave become the same bits again. Errors: those of ReadState; after one of
  /// Ticket::Take a part has been written.
  absl::Status WriteState(TensorId parameter, std::size_t state, std::span<const float> values);
  /// Read and write the master of a ParameterBinding likewise. The bound memory stays as it is.
  /// Errors: those of ReadState and WriteState, InvalidArgument (a parameter without a master).
  absl::Status ReadMaster(TensorId parameter, std::span<float> values);
  absl::Status WriteMaster(TensorId parameter, std::span<const float> values);
  /// Takes the master from the bound memory, which the program has written: each element of the
  /// memory that is not the rounded master replaces it. Errors: those of ReadMaster.
  absl::Status RefreshMaster(TensorId parameter);
  /// Sets the parameter's own count of steps: bias correction and random bits depend on it.
  /// Errors: NotFound (an unknown tensor), InvalidArgument (a parameter of no group, below 0),
  /// FailedPrecondition (a step is under way).
  absl::Status SetStepsOf(TensorId parameter, std::int64_t steps);

  /// Writes parameters, states, rates, step and each parameter's own steps to
  /// `directory`/optimizer.sluice. The file has its name only once it is whole and on the disk; a
  /// crash leaves the old or the new one. The directory must exist; a save that is there is
  /// replaced. `note`: text of the caller, for ReadSave. Does the same as StartSave and
  /// SaveHandle::Wait.
  ///
  /// Errors, besides those of the file system and of Ticket::Take:
  /// - FailedPrecondition: a step is under way, or gradients are added up.
  /// - NotFound, InvalidArgument: the directory.
  /// - NotFound: a parameter was freed.
  /// - ResourceExhausted: a thread cannot be started.
  absl::Status Save(const std::string& directory, std::string_view note = {});
  /// Saves beside the steps that follow: returns at once, and the file has what is there now. The
  /// next update of a part first writes the part's old bytes, from the frames that it holds anyway.
  /// So the save reads no page twice and keeps no copy.
  ///
  /// The end of a step writes what the step has not touched (groups that sit out, a step that is
  /// skipped). SaveHandle::Wait writes what no step has touched or a failed one has left. The
  /// save's thread writes, syncs and names the file.
  /// - A save that fails hinders no update: SaveHandle::Wait alone tells.
  /// - An earlier save that is not whole is completed first, which blocks; so do Save and Load.
  /// - The destructor gives up one that is not whole, and leaves nothing of it.
  /// - Nobody else may write to parameters until SaveHandle::HasEveryPart.
  /// Errors: FailedPrecondition, NotFound, InvalidArgument and ResourceExhausted of Save, those of
  /// making the file.
  absl::StatusOr<SaveHandle> StartSave(const std::string& directory, std::string_view note = {});
  /// Reads step, note and layout of the save in `directory`, but no tensor. Errors, besides those
  /// of the file system:
  /// - NotFound: no such directory, or no save in it.
  /// - InvalidArgument: an empty name, one of no directory, or a save that is no file.
  /// - DataLoss: damage in what describes the save; the rest is not read.
  static absl::StatusOr<OptimizerSave> ReadSave(const std::string& directory);
  /// Reads all of the save in `directory`, in little memory, and checks every checksum. OK if Load
  /// would find it whole. Errors: those of ReadSave, DataLoss (a damaged file: names the
  /// place).
  static absl::StatusOr<OptimizerSave> VerifySave(const std::string& directory);
  /// Reads what Save wrote: parameters, states, rates, steps; and writes bound copies. The
  /// optimizer must have the save's kind, state type, seed and groups: names, and the parameters'
  /// names, types and numbers of elements, in order. All else may differ. An old save without steps
  /// of parameters gives each the optimizer's.
  ///
  /// Load changes nothing unless every checksum is right. Blocks for leases as RefreshCopies does.
  /// Errors, besides those of ReadSave:
  /// - DataLoss: a damaged file; names the place.
  /// - InvalidArgument: the save of another optimizer; names what differs.
  /// - NotFound: a parameter was freed.
  /// - FailedPrecondition: a step is under way and has not failed.
  /// - Those of Ticket::Take and of reading the file, in the middle: a part has been loaded then.
  ///   Until a Load succeeds, steps, gradients, copies, saves, AddGroup and access to values fail
  ///   with FailedPrecondition.
  absl::Status Load(const std::string& directory);

 private:
  friend class internal::OptimizerAccess;
  class Impl;
  explicit OffloadedOptimizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
