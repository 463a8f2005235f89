#include "io/engine/uring_prepare.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>

namespace sluice::io {
namespace {

void PrepareTransfer(const RingBuffers* buffers, const IoCommand& command, io_uring_sqe* sqe) {
  const int fd = command.file->fd;
  const auto bytes = static_cast<unsigned>(command.bytes);
  const bool read = command.direction == IoDirection::kRead;
  const std::optional<unsigned> number =
      buffers == nullptr ? std::nullopt : buffers->Find(command.data, command.bytes);
  if (!number.has_value()) {
    return read ? io_uring_prep_read(sqe, fd, command.data, bytes, command.offset)
                : io_uring_prep_write(sqe, fd, command.data, bytes, command.offset);
  }
  const auto index = static_cast<int>(*number);
  read ? io_uring_prep_read_fixed(sqe, fd, command.data, bytes, command.offset, index)
       : io_uring_prep_write_fixed(sqe, fd, command.data, bytes, command.offset, index);
}

void PrepareOne(const RingBuffers* buffers, const IoCommand& command, io_uring_sqe* sqe) {
  const auto bytes = static_cast<unsigned>(command.bytes);
  switch (command.direction) {
    case IoDirection::kRead:
    case IoDirection::kWrite:
      return PrepareTransfer(buffers, command, sqe);
    case IoDirection::kWriteBack:
      return io_uring_prep_sync_file_range(
          sqe, command.file->fd, bytes, command.offset, kWriteBackFlags);
    case IoDirection::kDropCache:
      return io_uring_prep_fadvise(
          sqe, command.file->fd, command.offset, bytes, POSIX_FADV_DONTNEED);
  }
}

void PrepareSeveral(const IoCommand& first, const std::vector<iovec>& pieces, io_uring_sqe* sqe) {
  const int fd = first.file->fd;
  const auto count = static_cast<unsigned>(pieces.size());
  if (first.direction == IoDirection::kRead) {
    io_uring_prep_readv(sqe, fd, pieces.data(), count, first.offset);
  } else {
    io_uring_prep_writev(sqe, fd, pieces.data(), count, first.offset);
  }
}

void NumberFile(const std::vector<int>& files, io_uring_sqe* sqe) {
  const auto found = std::find(files.begin(), files.end(), sqe->fd);
  if (found == files.end()) return;
  sqe->fd = static_cast<int>(found - files.begin());
  sqe->flags |= IOSQE_FIXED_FILE;
}

}  // namespace

void PrepareEntry(const RingNumbers& numbers,
                  const IoCommand& first,
                  const std::vector<iovec>& pieces,
                  io_uring_sqe* sqe) {
  if (pieces.size() == 1) {
    PrepareOne(numbers.buffers, first, sqe);
  } else {
    PrepareSeveral(first, pieces, sqe);
  }
  NumberFile(numbers.files, sqe);
}

}  // namespace sluice::io
