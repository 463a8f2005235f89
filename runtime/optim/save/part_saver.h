#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/optim/optimizer/parameter_entry.h"
#include "runtime/optim/save/save_state.h"
#include "sluice/lease.h"

namespace sluice::optim {

/// What a save has of a parameter, in its order: itself (none: it is in the caller's memory), its
/// states, their scales.
std::vector<TensorId> SavedOf(const ParameterEntry& entry);

/// Whether all that a save has exists. Errors: NotFound.
absl::Status CheckSavedTensors(const Runtime& runtime, const std::deque<ParameterEntry>& entries);

/// Gives a save the parts that it has not had: those that an update holds, or all others. Threads:
/// externally synchronised. Lifetime: the entries outlive it, and what it uses of them never
/// changes.
class PartSaver {
 public:
  struct Options {
    Runtime& runtime;
    std::string lane;
    PartSize parts;
    StateType state_type = StateType::kFp32;
  };
  PartSaver(const Options& options, const std::deque<ParameterEntry>& entries);

  /// Parts of all entries.
  std::uint64_t parts() const { return left_; }

  /// REQUIRES: before all that follow.
  void SetState(std::shared_ptr<internal::SaveState> state) { state_ = std::move(state); }
  const std::shared_ptr<internal::SaveState>& state() const { return state_; }

  /// Adds the part to what Submit hands over, unless the save has it. `leases`: of SavedOf's
  /// tensors first.
  void Add(Part part, std::span<const Lease> leases);
  /// Returns the number to wait for (internal::SaveState::WaitFor); 0: there is nothing.
  std::uint64_t Submit();
  /// Reads and writes all parts that the save has not had; blocks. Ends early where `stopped`.
  void WriteRest(const std::function<bool()>& stopped);

 private:
  struct Entry {
    const ParameterEntry* entry = nullptr;
    std::size_t first_tensor = 0;  ///< number in the save
    std::vector<bool> has;         ///< parts of it that were added
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
