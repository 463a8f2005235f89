#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/engine/data/segment.h"

namespace sluice::engine {

/// Makes the pages of a segment's view writable while the window lives, for one lease. The window
/// may outlive the Runtime; the addresses go with the Runtime. Threads: destroyed on any.
class WriteWindow {
 public:
  /// Errors: ResourceExhausted (vm.max_map_count).
  static absl::StatusOr<std::unique_ptr<WriteWindow>> Open(const std::shared_ptr<Segment>& segment,
                                                           PageIndex first,
                                                           std::uint32_t pages);
  ~WriteWindow();
  WriteWindow(const WriteWindow&) = delete;
  WriteWindow& operator=(const WriteWindow&) = delete;

 private:
  WriteWindow(const std::shared_ptr<Segment>& segment, PageIndex first, std::uint32_t pages)
      : segment_(segment), first_(first), pages_(pages) {}

  const std::weak_ptr<Segment> segment_;
  const PageIndex first_;
  const std::uint32_t pages_;
};

}  // namespace sluice::engine
