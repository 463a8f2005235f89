#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/optimizer_handles.h"
#include "sluice/optimizer_options.h"
#include "sluice/runtime.h"
#include "sluice/tensor.h"
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

namespace internal {
class OptimizerAccess;
}  // namespace internal

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
  /// Has updates use other memory of bound parameters from now on, which has their values. A master
  /// stays as it is (RefreshMaster). The memory from before must stay until this returns. Blocks
  /// until the last save is over. Nothing has changed after an error: InvalidArgument (no bound
  /// parameter, those of BindParameter for the memory), FailedPrecondition (a step is under way).
  absl::Status MoveParameters(std::span<const MovedParameter> moved);
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

  /// Binds a gradient in place of an earlier one. Several parameters may share one. Errors:
  /// - NotFound: an unknown tensor, as the parameter or the gradient.
  /// - InvalidArgument: a parameter of no group, another number or type of elements, no type of
  ///   gradients, or `discard` without a tensor.
  /// - InvalidArgument: neither memory nor a tensor, or memory that is null, not aligned for the
  ///   type, given beside a tensor, or shared with a parameter or a copy.
  /// - InvalidArgument: a tensor that this optimizer has as a parameter, a state or a copy, or that
  ///   cannot be in dram.
  /// - FailedPrecondition: the group's step is under way.
  absl::Status BindGradient(TensorId parameter, const GradientBinding& gradient);
  /// Forgets the gradients in memory, so that a parameter may have that memory. Blocks until the
  /// last save is over. Errors: FailedPrecondition (a step is under way).
  absl::Status UnbindGradients();
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
  /// also FailedPrecondition (a step was started without the group, and is not over; parameters of
  /// the step share a gradient that is discarded).
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
  /// - An earlier save that is not whole is completed first, which blocks. So it is by Save, Load,
  ///   WriteState, WriteMaster and RefreshMaster.
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
