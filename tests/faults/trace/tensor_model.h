#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/types.h"
#include "sluice/policy.h"
#include "tests/faults/trace/trace.h"

namespace sluice::faults {

/// Stands for the bytes of a page: other stamps, other bytes. 0: zeros.
using Stamp = std::uint64_t;

void FillPage(Stamp stamp, std::span<std::byte> page);
bool PageHolds(Stamp stamp, std::span<const std::byte> page);

/// Expected content of a page, byte for byte, or its loss.
struct ModelPage {
  Stamp stamp = 0;
  bool lost = false;
  Stamp older = 0;  ///< content before; 0: none
};

struct ModelTensor {
  core::SegmentIndex segment = 0;
  PageIndex first_page = 0;
  bool reproducible = false;
  bool busy = false;  ///< an op of the trace is under way on it
  std::vector<ModelPage> pages;
  bool lost() const;
  std::string name() const { return "t" + std::to_string(first_page); }
};

/// The tensors of a trace, as their user knows them.
class TensorModel {
 public:
  explicit TensorModel(const Trace& trace);

  std::vector<ModelTensor>& tensors() { return tensors_; }
  const std::vector<ModelTensor>& tensors() const { return tensors_; }
  ModelTensor& Owner(PageIndex page) { return tensors_[owner_[page]]; }
  ModelPage& Page(PageIndex page);
  Stamp NewStamp() { return ++last_stamp_; }
  core::SegmentIndex NewSegment() { return next_segment_++; }
  std::uint32_t page_count() const { return static_cast<std::uint32_t>(owner_.size()); }

 private:
  std::vector<ModelTensor> tensors_;
  std::vector<std::uint32_t> owner_;  ///< owner of each page
  Stamp last_stamp_ = 0;
  core::SegmentIndex next_segment_ = 1;
};

}  // namespace sluice::faults
