#include "runtime/sim/schedule/made_again.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/sim/schedule/merge_accesses.h"

namespace sluice::sim {
namespace {

using analysis::Recomputable;

/// Writes the new schedule, op by op.
class Rewriter {
 public:
  Rewriter(const FileSchedule& schedule, std::span<const Recomputable> tensors)
      : schedule_(schedule), tensors_(tensors), result_(schedule), now_(schedule.tensors.size()) {
    result_.ops.clear();
    for (std::uint32_t i = 0; i < now_.size(); ++i) now_[i] = i;
  }

  FileSchedule Rewrite() {
    std::size_t next = 0;
    for (std::uint32_t op = 0; op < schedule_.ops.size(); ++op) {
      for (; next < tensors_.size() && tensors_[next].next_use == op; ++next) {
        MakeAgain(tensors_[next]);
      }
      Copy(schedule_.ops[op]);
    }
    return std::move(result_);
  }

 private:
  void MakeAgain(const Recomputable& one);
  void Copy(const FileOp& op);
  FileOp WithNewTensors(FileOp op) const;
  void WaitForReaders(FileOp* op) const;

  std::uint32_t NextOp() const { return static_cast<std::uint32_t>(result_.ops.size()); }

  const FileSchedule& schedule_;
  const std::span<const Recomputable> tensors_;
  FileSchedule result_;
  std::vector<std::uint32_t> now_;     ///< tensor with the content now, by tensor
  std::vector<std::uint32_t> copies_;  ///< index in the result, by op
  /// Added ops that read each tensor of the result.
  std::map<std::uint32_t, std::vector<std::uint32_t>> readers_;
};

/// The op uses what has the content now.
FileOp Rewriter::WithNewTensors(FileOp op) const {
  for (auto* accesses : {&op.reads, &op.writes}) {
    for (FileAccess& access : *accesses) access.tensor = now_[access.tensor];
  }
  for (TierException& exception : op.exceptions) exception.tensor = now_[exception.tensor];
  std::sort(op.exceptions.begin(), op.exceptions.end(), [](const auto& a, const auto& b) {
    return a.tensor < b.tensor;
  });
  return op;
}

void Rewriter::MakeAgain(const Recomputable& one) {
  FileTensor tensor = schedule_.tensors[one.tensor];
  tensor.name += tensor.name.empty() ? "" : " again";
  tensor.segment.reset();
  tensor.segment_offset = 0;
  now_[one.tensor] = static_cast<std::uint32_t>(result_.tensors.size());
  result_.tensors.push_back(std::move(tensor));

  FileOp op = schedule_.ops[one.writer];
  op.name += op.name.empty() ? "" : " again";
  op.seconds = one.recompute_seconds;
  op.writes = {{one.tensor, {0, schedule_.tensors[one.tensor].bytes}}};
  op.after.reset();
  op.recompute_seconds.clear();
  op.reads = MergeAccesses(std::move(op.reads));
  op = WithNewTensors(std::move(op));
  for (const FileAccess& read : op.reads) {
    std::vector<std::uint32_t>& readers = readers_[read.tensor];
    if (readers.empty() || readers.back() != NextOp()) readers.push_back(NextOp());
  }
  result_.ops.push_back(std::move(op));
}

/// Has the op wait for readers in other lanes. In its own lane it comes later anyway.
void Rewriter::WaitForReaders(FileOp* op) const {
  std::set<std::uint32_t> waited;
  for (const FileAccess& write : MergeAccesses(op->writes)) {
    const auto found = readers_.find(write.tensor);
    if (found == readers_.end()) continue;
    for (const std::uint32_t reader : found->second) {
      if (result_.ops[reader].lane != op->lane) waited.insert(reader);
    }
  }
  if (waited.empty()) return;
  if (!op->after.has_value()) op->after.emplace();
  op->after->insert(op->after->end(), waited.begin(), waited.end());
}

void Rewriter::Copy(const FileOp& op) {
  FileOp copy = WithNewTensors(op);
  if (copy.after.has_value()) {
    for (std::uint32_t& before : *copy.after) before = copies_[before];
  }
  WaitForReaders(&copy);
  copies_.push_back(NextOp());
  result_.ops.push_back(std::move(copy));
}

}  // namespace

FileSchedule WithMadeAgain(const FileSchedule& schedule, std::span<const Recomputable> tensors) {
  return Rewriter(schedule, tensors).Rewrite();
}

}  // namespace sluice::sim
