#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "sluice/runtime.h"

namespace sluice::optim {

/// An interval of the timeline in which the optimizer computes, on the lane's own track. It lasts
/// as long as the object, and does nothing without a trace. Lifetime: all arguments outlive the
/// object.
class WorkSpan {
 public:
  WorkSpan(const Runtime& runtime,
           std::string_view lane,
           std::string_view name,
           std::uint64_t elements,
           std::size_t parts = 1);
  ~WorkSpan();
  WorkSpan(const WorkSpan&) = delete;
  WorkSpan& operator=(const WorkSpan&) = delete;

 private:
  const TraceSink& sink_;
  const std::string_view lane_;
  const std::string_view name_;
  const std::uint64_t elements_;
  const std::size_t parts_;
  const std::chrono::steady_clock::time_point begin_;
};

}  // namespace sluice::optim
