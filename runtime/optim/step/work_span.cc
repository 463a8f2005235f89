#include "runtime/optim/step/work_span.h"

#include <string>

#include "fmt/format.h"

namespace sluice::optim {

WorkSpan::WorkSpan(const Runtime& runtime,
                   std::string_view lane,
                   std::string_view name,
                   std::uint64_t elements,
                   std::size_t parts)
    : sink_(runtime.Trace()),
      lane_(lane),
      name_(name),
      elements_(elements),
      parts_(parts),
      begin_(std::chrono::steady_clock::now()) {}

WorkSpan::~WorkSpan() {
  if (!sink_) return;
  std::string text = fmt::format("{}: {} elements", name_, elements_);
  if (parts_ > 1) text += fmt::format(" in {} parts", parts_);
  sink_({.track = std::string(lane_),
         .name = std::move(text),
         .begin = begin_,
         .end = std::chrono::steady_clock::now()});
}

}  // namespace sluice::optim
