#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/save/save_state.h"
#include "sluice/lease.h"

namespace sluice::optim {

/// Tensors that a save has of a parameter, in this order: the parameter (none if it is in the
/// caller's memory), its states, their scales.
std::vector<TensorId> SavedOf(const ParameterEntry& entry);

/// Whether all tensors of a save exist. Errors: NotFound.
absl::Status CheckSavedTensors(const Runtime& runtime, const std::deque<ParameterEntry>& entries);

/// Gives a save the parts that it has not had: those that an update holds, or all others. Threads:
/// externally synchronised. Lifetime: the entries outlive the saver, and the fields that it uses
/// never change.
class PartSaver {
 public:
  struct Options {
    Runtime& runtime;
    std::string lane;
    PartSize parts;
    StateType state_type = StateType::kFp32;
  };
  PartSaver(const Options& options, const std::deque<ParameterEntry>& entries);

  /// Number of parts that were not added, of all entries.
  std::uint64_t parts() const { return left_; }

  /// Sets the state of the save. REQUIRES: the call comes before those below.
  void SetState(std::shared_ptr<internal::SaveState> state) { state_ = std::move(state); }
  const std::shared_ptr<internal::SaveState>& state() const { return state_; }

  /// Adds the part to the bytes that Submit hands over, unless the save has it. `leases`: leases of
  /// SavedOf's tensors come first.
  void Add(Part part, std::span<const Lease> leases);
  /// Hands over the bytes. Returns the number to wait for (internal::SaveState::WaitFor); 0: there
  /// were none.
  std::uint64_t Submit();
  /// Reads and writes all parts that the save has not had; blocks. Ends early once `stopped`
  /// returns true.
  void WriteRest(const std::function<bool()>& stopped);

 private:
  struct Entry {
    const ParameterEntry* entry = nullptr;
    std::size_t first_tensor = 0;  ///< number of the entry's first tensor in the save
    std::vector<bool> has;         ///< flag per part, set once it was added
  };
  bool Wants(Part part) const;
  std::vector<ByteRange> RangesOf(Part part) const;
  std::vector<Access> AccessesOf(Part part) const;
  std::vector<Part> Rest() const;

  const Options options_;
  std::vector<Entry> entries_;
  std::uint64_t left_ = 0;  ///< parts that were not added
  std::shared_ptr<internal::SaveState> state_;
  std::vector<SavedBytes> added_;
  std::uint64_t parts_added_ = 0;
};

}  // namespace sluice::optim
