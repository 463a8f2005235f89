#pragma once

#include "absl/status/status.h"

namespace sluice::io {

// A DataLoss is a fault of the medium when a slot does not give back what was written into it,
// however often it is asked: the slot is better not used again. Other pages asked for and files cut
// short lose a page as well, but another may go there.

absl::Status MarkMediumFault(absl::Status status);
bool IsMediumFault(const absl::Status& status);
/// For those above, who cannot do anything about the slot.
void UnmarkMediumFault(absl::Status* status);

}  // namespace sluice::io
