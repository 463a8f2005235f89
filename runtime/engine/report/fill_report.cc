#include "runtime/engine/report/fill_report.h"

#include <utility>

#include "fmt/format.h"
#include "sluice/units.h"

namespace sluice::engine {
namespace {

constexpr auto kBetweenLines = std::chrono::seconds(10);

}  // namespace

FillReport::FillReport(LogSink log, Now now) : log_(std::move(log)), now_(std::move(now)) {}

void FillReport::Tell(const io::FillProgress& progress) {
  const std::chrono::steady_clock::time_point time = now_();
  if (!log_ || (progress.filled > 0 && time < next_)) return;
  next_ = time + kBetweenLines;
  log_(LogLevel::kWarning,
       fmt::format("spill directory {}: {}; the files are written in full first: {} of {}",
                   progress.directory,
                   progress.reason,
                   ToString(Bytes(progress.filled)),
                   ToString(Bytes(progress.bytes_all))));
}

}  // namespace sluice::engine
