#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "python/binding/session.h"
#include "python/binding/waiting.h"
#include "sluice/optimizer.h"

namespace sluice::python {

/// A gradient for a step: group, parameter, type, address, bytes, and the rates: learning rate,
/// beta1, beta2, eps, weight decay.
using Update = std::tuple<std::uint32_t,
                          std::uint64_t,
                          std::string,
                          std::uintptr_t,
                          std::uint64_t,
                          std::tuple<double, double, double, double, double>>;

/// An OffloadedOptimizer of parameters in the memory of a Python program. The program keeps the
/// parameters, and the gradients of a step, while they are used. Its session ends the optimizer
/// before it closes.
/// Threads: any. No member holds the GIL while it waits, nor waits for the lock with it.
class PythonOptimizer : public std::enable_shared_from_this<PythonOptimizer> {
 public:
  /// `norm_given`: each Start has the norm of the gradients of all ranks. `overlap`: steps go on
  /// beside the next forward, so in its order, and Close completes them.
  /// Raises the errors of OffloadedOptimizer::Create. REQUIRES: the GIL.
  static std::shared_ptr<PythonOptimizer> Create(const std::shared_ptr<Session>& session,
                                                 const std::string& kind,
                                                 const std::string& state,
                                                 const std::string& lowest,
                                                 double clip_norm,
                                                 bool norm_given,
                                                 std::uint64_t seed,
                                                 int threads,
                                                 bool overlap);
  ~PythonOptimizer();
  PythonOptimizer(const PythonOptimizer&) = delete;
  PythonOptimizer& operator=(const PythonOptimizer&) = delete;

  /// Binds a parameter of `bytes` at `address` and makes its group. `number`: see
  /// GroupOptions::first_number. Returns (group, parameter).
  std::pair<std::uint32_t, std::uint64_t> Add(const std::string& name,
                                              const std::string& dtype,
                                              const std::vector<std::int64_t>& shape,
                                              std::uintptr_t address,
                                              std::uint64_t bytes,
                                              bool master,
                                              std::uint64_t number);
  /// Parameter, address and bytes of its new memory.
  using MovedPlace = std::tuple<std::uint64_t, std::uintptr_t, std::uint64_t>;
  /// Has updates use other memory of parameters, all or none.
  void Move(const std::vector<MovedPlace>& moved);
  /// Brings pages to dram that the next step of these groups updates first, `bytes` at most.
  /// Returns the bytes of these pages, whether they are there or not.
  std::uint64_t Prefetch(const std::vector<std::uint32_t>& groups, std::uint64_t bytes);
  /// Starts a step of these gradients, in the order of the groups. Every other step goes through
  /// them backwards. `norm`: only with norm_given.
  void Start(const std::vector<Update>& updates, std::optional<double> norm);
  /// Number of calls of Start and GoOn that have begun a step, or a part of one. Any thread.
  std::uint64_t started() const { return started_; }
  /// Number of updates that Begin has started. Any thread.
  std::uint64_t begun() const { return begun_; }
  /// Starts the update of one parameter before the step, while others have no gradient yet.
  void Begin(const Update& update);
  /// Starts the step of the parameters that have begun, or the missing part of a failed step.
  void GoOn();
  /// Blocks until the step that was started is over; signal handlers of Python run meanwhile. An
  /// exception of theirs leaves the step under way: wait again. Returns its numbers by name.
  nanobind::dict Wait();
  /// Whether the parameters of the group are updated. `block`: as Wait, until they are or cannot
  /// be; false then says that the update has failed, and Wait tells why. After Close true, if the
  /// step has ended well.
  bool WaitFor(std::uint32_t group, bool block);

  void SetRates(std::uint32_t group, const std::tuple<double, double, double, double, double>& to);
  std::tuple<double, double, double, double, double> Rates(std::uint32_t group) const;
  /// fp32 values of a state at an address, or of the master (no state).
  void ReadState(std::uint64_t parameter,
                 std::optional<int> state,
                 std::uintptr_t to,
                 std::uint64_t count);
  void WriteState(std::uint64_t parameter,
                  std::optional<int> state,
                  std::uintptr_t from,
                  std::uint64_t count);
  void RefreshMaster(std::uint64_t parameter);
  std::int64_t StepsOf(std::uint64_t parameter) const;
  void SetStepsOf(std::uint64_t parameter, std::int64_t steps);
  void Save(const std::string& directory, const std::string& note);
  /// The note of the save in `directory`. Any thread.
  static std::string ReadNote(const std::string& directory);
  void Load(const std::string& directory);
  /// Ends the optimizer: its states are gone. Waits for calls of other threads, and for a step that
  /// overlaps. Any thread.
  void Close();

 private:
  PythonOptimizer(std::shared_ptr<Session> session,
                  std::shared_ptr<const int> number,
                  std::unique_ptr<OffloadedOptimizer> optimizer,
                  bool overlap);
  /// Calls `call(optimizer)` without the GIL, alone. Raises FailedPrecondition once it is closed.
  template <typename Call>
  auto Alone(const Call& call) const;

  const std::shared_ptr<Session> session_;
  const std::shared_ptr<const int> number_;  ///< number of the optimizer's lane
  const bool overlap_;
  mutable std::mutex mutex_;
  std::unique_ptr<OffloadedOptimizer> optimizer_;
  StepHandle step_;
  std::optional<double> norm_;  ///< norm of the step that was started
  std::atomic<std::uint64_t> started_ = 0;
  std::atomic<std::uint64_t> begun_ = 0;
  std::atomic<bool> whole_at_close_ = false;  ///< Close has seen the end of the step that overlaps
};

/// Adds the class to the module.
void BindOptimizer(nanobind::module_& module);

}  // namespace sluice::python
