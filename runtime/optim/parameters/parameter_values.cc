#include "runtime/optim/parameters/parameter_values.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/optim/kernels/parameter_copy.h"
#include "runtime/optim/kernels/state_values.h"
#include "runtime/optim/optimizer/errors.h"
#include "runtime/optim/step/gradient_sum.h"
#include "runtime/optim/step/pieces.h"
#include "runtime/optim/step/range_sweep.h"

namespace sluice::optim {
namespace {

/// Elements of a master that are compared at once.
constexpr std::size_t kMasterRun = 1024;

/// A state of a parameter and what is to be done with its blocks.
struct StatePass {
  const ParameterEntry& entry;
  std::size_t state = 0;
  StateBlock block = {};  ///< kind and types
  AccessMode mode = AccessMode::kRead;
  /// Work on a block that is in `block.kept`, or is to be. Its values are those from `element` on.
  std::function<void(const StateBlock& block, std::uint64_t element)> work = {};

  std::size_t element_bytes() const { return BytesOf(block.type); }
  bool has_scales() const { return block.type == StateType::k8Bit; }
};

std::vector<Access> AccessesOf(const StatePass& pass, ElementRange range) {
  const ByteRange bytes = BytesOfElements(range, pass.element_bytes());
  std::vector<Access> accesses = {InDram(pass.entry.states[pass.state], bytes, pass.mode)};
  if (pass.has_scales()) {
    accesses.push_back(InDram(pass.entry.scales[pass.state], BytesOfScales(range), pass.mode));
  }
  return accesses;
}

void WorkOnRange(const StatePass& pass, ElementRange range, const std::vector<Lease>& leases) {
  const Pieces kept(leases[0], pass.element_bytes());
  const Pieces scales = pass.has_scales() ? Pieces(leases[1], sizeof(float)) : Pieces();
  alignas(64) std::array<std::byte, kStateBlock * sizeof(float)> bytes;
  float scale = 0;
  auto* scale_bytes = reinterpret_cast<std::byte*>(&scale);
  StateBlock block = pass.block;
  block.kept = bytes.data();
  block.scale = &scale;
  for (std::uint64_t i = 0; i < range.count; i += block.count) {
    block.count = std::min<std::uint64_t>(kStateBlock, range.count - i);
    if (pass.mode == AccessMode::kRead) {
      kept.CopyOut(i, block.count, bytes.data());
      if (pass.has_scales()) scales.CopyOut(i / kStateBlock, 1, scale_bytes);
    }
    pass.work(block, range.begin + i);
    if (pass.mode == AccessMode::kRead) continue;
    kept.CopyIn(i, block.count, bytes.data());
    if (pass.has_scales()) scales.CopyIn(i / kStateBlock, 1, scale_bytes);
  }
}

absl::Status Sweep(Runtime& runtime,
                   const std::string& lane,
                   std::uint64_t step,
                   const char* verb,
                   const StatePass& pass) {
  return Run(runtime,
             lane,
             {.name = fmt::format("{}.{}", verb, pass.entry.name),
              .count = pass.entry.count,
              .step = step,
              .accesses = [&](ElementRange range) { return AccessesOf(pass, range); },
              .work =
                  [&](ElementRange range, const std::vector<Lease>& leases) {
                    WorkOnRange(pass, range, leases);
                    return absl::OkStatus();
                  }});
}

/// The values of `memory` where they are not what the master rounds to.
void MergeMaster(DType type, const std::byte* memory, float* master, std::size_t count) {
  std::array<std::uint16_t, kMasterRun> rounded;
  std::array<float, kMasterRun> values;
  CopyParameters(
      {.type = CopyTypeOf(type), .parameters = master, .copy = rounded.data(), .count = count});
  AddGradients({.sum = values.data(),
                .type = *GradientTypeOf(type),
                .gradients = memory,
                .count = count,
                .first = true});
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(memory + 2 * i, &rounded[i], 2) != 0) master[i] = values[i];
  }
}

absl::Status CheckState(const ParameterEntry& entry, std::size_t state) {
  if (state < entry.states.size()) return absl::OkStatus();
  return Invalid("'{}' has {} states, there is no {}", entry.name, entry.states.size(), state);
}

absl::Status CheckMaster(const ParameterEntry& entry) {
  if (entry.has_master) return absl::OkStatus();
  return Invalid("'{}' has no master (ParameterBinding::master)", entry.name);
}

}  // namespace

absl::Status ParameterValues::ReadState(const ParameterEntry& entry,
                                        std::size_t state,
                                        std::span<float> values) const {
  SLUICE_RETURN_IF_ERROR(CheckState(entry, state));
  StatePass pass{.entry = entry, .state = state};
  pass.block = {
      .optimizer = optimizer_.kind, .state = static_cast<int>(state), .type = optimizer_.state};
  pass.work = [&](StateBlock block, std::uint64_t element) {
    std::array<float, kStateBlock> read;
    block.values = read.data();
    ReadStateBlock(block);
    std::copy_n(read.begin(), block.count, values.data() + element);
  };
  return Sweep(runtime_, optimizer_.lane, elements_, "read", pass);
}

absl::Status ParameterValues::WriteState(const ParameterEntry& entry,
                                         std::size_t state,
                                         std::span<const float> values) const {
  SLUICE_RETURN_IF_ERROR(CheckState(entry, state));
  StatePass pass{.entry = entry, .state = state, .mode = AccessMode::kOverwrite};
  pass.block = {
      .optimizer = optimizer_.kind, .state = static_cast<int>(state), .type = optimizer_.state};
  pass.work = [&](StateBlock block, std::uint64_t element) {
    std::array<float, kStateBlock> written;
    std::copy_n(values.data() + element, block.count, written.begin());
    block.values = written.data();
    WriteStateBlock(block);
  };
  return Sweep(runtime_, optimizer_.lane, elements_, "write", pass);
}

absl::Status ParameterValues::ReadMaster(const ParameterEntry& entry,
                                         std::span<float> values) const {
  SLUICE_RETURN_IF_ERROR(CheckMaster(entry));
  const auto work = [&](ElementRange range, const std::vector<Lease>& leases) {
    const Pieces master(leases[0], sizeof(float));
    master.CopyOut(0, range.count, reinterpret_cast<std::byte*>(values.data() + range.begin));
    return absl::OkStatus();
  };
  return Run(runtime_, optimizer_.lane, MasterSweep(entry, AccessMode::kRead, work));
}

absl::Status ParameterValues::WriteMaster(const ParameterEntry& entry,
                                          std::span<const float> values) const {
  SLUICE_RETURN_IF_ERROR(CheckMaster(entry));
  const auto work = [&](ElementRange range, const std::vector<Lease>& leases) {
    const Pieces master(leases[0], sizeof(float));
    master.CopyIn(0, range.count, reinterpret_cast<const std::byte*>(values.data() + range.begin));
    return absl::OkStatus();
  };
  return Run(runtime_, optimizer_.lane, MasterSweep(entry, AccessMode::kOverwrite, work));
}

absl::Status ParameterValues::TakeMaster(const ParameterEntry& entry) const {
  SLUICE_RETURN_IF_ERROR(CheckMaster(entry));
  const auto work = [&](ElementRange range, const std::vector<Lease>& leases) {
    const Pieces master(leases[0], sizeof(float));
    for (std::size_t i = 0, run = 0; i < range.count; i += run) {
      run = std::min({kMasterRun, master.Together(i), std::size_t{range.count} - i});
      const std::byte* memory = entry.copy->bytes.data() + 2 * (range.begin + i);
      MergeMaster(entry.copy->type, memory, reinterpret_cast<float*>(master.At(i)), run);
    }
    return absl::OkStatus();
  };
  return Run(runtime_, optimizer_.lane, MasterSweep(entry, AccessMode::kReadWrite, work));
}

RangeSweep ParameterValues::MasterSweep(const ParameterEntry& entry,
                                        AccessMode mode,
                                        const MasterWork& work) const {
  const auto accesses = [tensor = entry.tensor, mode](ElementRange range) -> std::vector<Access> {
    return {InDram(tensor, BytesOfElements(range, sizeof(float)), mode)};
  };
  return {.name = "master." + entry.name,
          .count = entry.count,
          .step = elements_,
          .accesses = accesses,
          .work = work};
}

}  // namespace sluice::optim
