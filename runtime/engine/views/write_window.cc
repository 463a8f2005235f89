#include "runtime/engine/views/write_window.h"

#include "absl/memory/memory.h"
#include "base/status.h"

namespace sluice::engine {

absl::StatusOr<std::unique_ptr<WriteWindow>> WriteWindow::Open(
    const std::shared_ptr<Segment>& segment, PageIndex first, std::uint32_t pages) {
  SLUICE_RETURN_IF_ERROR(segment->BeginWrite(first, pages));
  return absl::WrapUnique(new WriteWindow(segment, first, pages));
}

WriteWindow::~WriteWindow() {
  if (const auto segment = segment_.lock()) segment->EndWrite(first_, pages_);
}

}  // namespace sluice::engine
