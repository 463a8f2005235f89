#include "runtime/optim/save/saved_tensors.h"

#include <utility>

#include "base/status.h"
#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/save/save_layout.h"

namespace sluice::optim {
namespace {

/// Bytes of a block of the checksum. A scale belongs to kStateBlock elements.
std::uint64_t BlockBytes(const LayoutParameter& parameter, const ParameterRecord& record) {
  const std::uint64_t elements =
      record.count == parameter.count ? kSumElements : kSumElements / kStateBlock;
  return elements * SizeOf(record.type);
}

}  // namespace

absl::StatusOr<std::vector<SavedTensor>> TensorsOfLayout(const std::string& text) {
  SLUICE_ASSIGN_OR_RETURN(const SaveLayout layout, ParseLayout(text));
  std::vector<SavedTensor> tensors;
  for (const LayoutGroup& group : layout.groups) {
    for (const LayoutParameter& parameter : group.parameters) {
      for (const ParameterRecord& record : RecordsOf(parameter, layout.kind, layout.state)) {
        tensors.push_back(
            {parameter.name + record.suffix, record.bytes(), BlockBytes(parameter, record)});
      }
    }
  }
  return tensors;
}

}  // namespace sluice::optim
