#pragma once

#include "absl/status/status.h"

namespace sluice::io {

// A DataLoss is a fault of the medium if a slot never gives back the bytes written into it. Such a
// slot is better not used again. A wrong page or a file cut short is a DataLoss, too, but its slot
// may be used again.

/// Whether it is an answer of the medium itself: EIO, ENODATA, EILSEQ.
bool IsMediumErrno(int error_number);
/// Whether it says that the drive is gone, cannot be reached or does not answer: ENODEV, ENOLINK,
/// ETIMEDOUT, EREMOTEIO, EBADE, ETIME, which Linux makes of the ends of block requests
/// (block/blk-core.c, blk_errors), and ENXIO and ESHUTDOWN of file systems. One alone may be of the
/// request, so several of different pages count (DrivePlaces).
bool IsDriveErrno(int error_number);

absl::Status MarkMediumFault(absl::Status status);
bool IsMediumFault(const absl::Status& status);

// A fault without I/O says nothing about the drive: the slot is known to hold another page than the
// one asked for.

absl::Status MarkWithoutIo(absl::Status status);
bool IsWithoutIo(const absl::Status& status);

// One of the drive as a whole: the page may still be there.

absl::Status MarkDriveFault(absl::Status status);
bool IsDriveFault(const absl::Status& status);

/// Takes off each mark, for callers that know no slots.
void Unmark(absl::Status* status);

}  // namespace sluice::io
