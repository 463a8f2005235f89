#include "tests/runtime/core/policies/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace sluice::core {
namespace {

class Zipf {
 public:
  explicit Zipf(std::uint32_t pages) {
    double sum = 0;
    for (std::uint32_t i = 0; i < pages; ++i) sums_.push_back(sum += std::pow(i + 1, -0.9));
  }
  PageIndex operator()(std::mt19937_64& random) const {
    const double at = static_cast<double>(random() >> 11) * 0x1p-53 * sums_.back();
    const auto found = std::upper_bound(sums_.begin(), sums_.end() - 1, at);
    return static_cast<PageIndex>(found - sums_.begin());
  }

 private:
  std::vector<double> sums_;
};

PageIndex Below(std::mt19937_64& random, std::uint64_t limit) {
  return static_cast<PageIndex>(random() % limit);
}

}  // namespace

Trace UniformTrace(const TraceOptions& options) {
  std::mt19937_64 random(options.seed);
  Trace trace;
  while (trace.size() < options.length) trace.push_back({Below(random, options.pages)});
  return trace;
}

Trace ZipfTrace(const TraceOptions& options) {
  std::mt19937_64 random(options.seed);
  const Zipf zipf(options.pages);
  Trace trace;
  while (trace.size() < options.length) trace.push_back({zipf(random)});
  return trace;
}

Trace LoopTrace(const TraceOptions& options) {
  Trace trace;
  while (trace.size() < options.length) {
    trace.push_back({static_cast<PageIndex>(trace.size() % options.pages)});
  }
  return trace;
}

Trace ScanTrace(const TraceOptions& options) {
  std::mt19937_64 random(options.seed);
  const Zipf zipf(options.pages);
  PageIndex fresh = options.pages;
  Trace trace;
  while (trace.size() < options.length) {
    for (std::uint32_t i = 0; i < options.pages; ++i) trace.push_back({zipf(random)});
    for (PageIndex i = Below(random, options.pages); i > 0; --i) trace.push_back({fresh++});
  }
  trace.resize(options.length);
  return trace;
}

Trace UpAndDownTrace(const TraceOptions& options) {
  std::mt19937_64 random(options.seed);
  Trace trace;
  while (trace.size() < options.length) {
    for (std::uint32_t i = 0; i < 2 * options.pages; ++i) {
      const PageIndex page = i < options.pages ? i : 2 * options.pages - 1 - i;
      for (PageIndex again = 1 + Below(random, 3); again > 0; --again) trace.push_back({page});
    }
  }
  trace.resize(options.length);
  return trace;
}

Trace PhasesTrace(const TraceOptions& options) {
  std::mt19937_64 random(options.seed);
  const std::uint32_t set = std::max(options.pages / 8, 1u);
  Trace trace;
  while (trace.size() < options.length) {
    const PageIndex first = Below(random, options.pages);
    for (std::uint32_t i = 0; i < 10 * set; ++i) {
      const bool any = Below(random, 100) < 10;
      const PageIndex page = any ? Below(random, options.pages) : first + Below(random, set);
      trace.push_back({page % options.pages});
    }
  }
  trace.resize(options.length);
  return trace;
}

std::vector<NamedTrace> AllTraces(const TraceOptions& options) {
  return {{"uniform", UniformTrace(options)},
          {"zipf", ZipfTrace(options)},
          {"loop", LoopTrace(options)},
          {"scan", ScanTrace(options)},
          {"up and down", UpAndDownTrace(options)},
          {"phases", PhasesTrace(options)}};
}

void AddWrites(std::uint64_t seed, std::uint32_t writes, std::uint32_t overwrites, Trace* trace) {
  std::mt19937_64 random(seed);
  for (Reference& reference : *trace) {
    const std::uint32_t dice = Below(random, 100);
    if (dice < writes) reference.mode = Reference::Mode::kWrite;
    if (dice >= 100 - overwrites) reference.mode = Reference::Mode::kOverwrite;
  }
}

std::vector<Position> NextUses(const Trace& trace) {
  std::vector<Position> next(trace.size(), kNever);
  std::map<PageIndex, Position> later;
  for (std::size_t i = trace.size(); i-- > 0;) {
    const auto found = later.find(trace[i].page);
    if (found != later.end()) next[i] = found->second;
    later[trace[i].page] = i;
  }
  return next;
}

}  // namespace sluice::core
