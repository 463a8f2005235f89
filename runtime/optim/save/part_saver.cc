#include "runtime/optim/save/part_saver.h"

#include <utility>

#include "base/status.h"
#include "runtime/optim/step/op_pipeline.h"
#include "runtime/optim/step/range_sweep.h"

namespace sluice::optim {
namespace {

/// Ops that read parts ahead of the one whose part is being written.
constexpr std::size_t kPartsAhead = 4;

/// An op whose part is on its way into the save.
struct SavingOp {
  RunningOp running;
  std::uint64_t number = 0;
};

}  // namespace

std::vector<TensorId> SavedOf(const ParameterEntry& entry) {
  std::vector<TensorId> tensors = {entry.tensor};
  tensors.insert(tensors.end(), entry.states.begin(), entry.states.end());
  tensors.insert(tensors.end(), entry.scales.begin(), entry.scales.end());
  return tensors;
}

absl::Status CheckSavedTensors(const Runtime& runtime, const std::deque<ParameterEntry>& entries) {
  for (const ParameterEntry& entry : entries) {
    for (const TensorId tensor : SavedOf(entry)) {
      if (tensor == TensorId()) continue;
      SLUICE_RETURN_IF_ERROR(runtime.NameOfTensor(tensor).status());
    }
  }
  return absl::OkStatus();
}

PartSaver::PartSaver(const Options& options, const std::deque<ParameterEntry>& entries)
    : options_(options) {
  std::size_t tensors = 0;
  for (const ParameterEntry& entry : entries) {
    const std::uint32_t parts = options_.parts.PartsOf(entry);
    entries_.push_back({&entry, tensors, std::vector<bool>(parts)});
    tensors += SavedOf(entry).size();
    left_ += parts;
  }
}

bool PartSaver::Wants(Part part) const {
  return part.entry < entries_.size() && !entries_[part.entry].has[part.index] && !state_->failed();
}

std::vector<ByteRange> PartSaver::RangesOf(Part part) const {
  const ParameterEntry& entry = *entries_[part.entry].entry;
  const ElementRange elements = options_.parts.RangeOf(entry, part.index);
  std::vector<ByteRange> ranges = {BytesOfElements(elements, BytesOf(entry.type))};
  ranges.insert(
      ranges.end(), entry.states.size(), BytesOfElements(elements, BytesOf(options_.state_type)));
  ranges.insert(ranges.end(), entry.scales.size(), BytesOfScales(elements));
  return ranges;
}

std::vector<Access> PartSaver::AccessesOf(Part part) const {
  const std::vector<TensorId> tensors = SavedOf(*entries_[part.entry].entry);
  const std::vector<ByteRange> ranges = RangesOf(part);
  std::vector<Access> accesses;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == TensorId()) continue;
    accesses.push_back(InDram(tensors[i], ranges[i], AccessMode::kRead));
  }
  return accesses;
}

void PartSaver::Add(Part part, std::span<const Lease> leases) {
  if (!Wants(part)) return;
  Entry& entry = entries_[part.entry];
  const std::vector<ByteRange> ranges = RangesOf(part);
  const std::span<std::byte> memory = entry.entry->memory;
  const std::size_t in_memory = memory.empty() ? 0 : 1;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    SavedBytes bytes{.tensor = entry.first_tensor + i, .offset = ranges[i].offset, .pieces = {}};
    if (i < in_memory) {
      bytes.pieces = {memory.subspan(ranges[i].offset, ranges[i].bytes)};
    } else {
      bytes.pieces = leases[i - in_memory].Spans();
    }
    added_.push_back(std::move(bytes));
  }
  entry.has[part.index] = true;
  --left_;
  ++parts_added_;
}

std::uint64_t PartSaver::Submit() {
  if (parts_added_ == 0) return 0;
  return state_->Submit(std::exchange(added_, {}), std::exchange(parts_added_, 0));
}

std::vector<Part> PartSaver::Rest() const {
  std::vector<Part> rest;
  for (std::uint32_t entry = 0; entry < entries_.size() && left_ > 0; ++entry) {
    for (std::uint32_t part = 0; part < entries_[entry].has.size(); ++part) {
      if (!entries_[entry].has[part]) rest.push_back({entry, part});
    }
  }
  return rest;
}

void PartSaver::WriteRest(const std::function<bool()>& stopped) {
  const std::vector<Part> rest = Rest();
  OpPipeline pipeline(options_.runtime, options_.lane);
  std::deque<SavingOp> saving;
  std::size_t asked = 0, taken = 0;
  const auto wait_for_first = [&] {
    state_->WaitFor(saving.front().number);
    saving.pop_front();
  };
  while (taken < rest.size() && !state_->failed() && !stopped()) {
    for (; asked < rest.size() && asked - taken + saving.size() <= kPartsAhead; ++asked) {
      pipeline.Ask("save." + entries_[rest[asked].entry].entry->name, AccessesOf(rest[asked]));
    }
    // An op without its pages may wait for the pages of a part that is being written.
    if (!saving.empty() && (asked == taken || !pipeline.NextIsReady())) {
      wait_for_first();
      continue;
    }
    absl::StatusOr<RunningOp> running = pipeline.Next();
    if (!running.ok()) {
      state_->Fail(running.status());
      break;
    }
    Add(rest[taken++], running->leases);
    saving.push_back({*std::move(running), Submit()});
  }
  while (!saving.empty()) wait_for_first();
}

}  // namespace sluice::optim
