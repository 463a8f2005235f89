#include <algorithm>
#include <unordered_map>

#include "tests/runtime/analysis/bounds/exhaustive_time.h"

namespace sluice::analysis {
namespace {

/// Appends `value` to a key that has room for `bits` more.
void Append(std::uint64_t value, int bits, std::uint64_t* key) { *key = *key << bits | value; }

}  // namespace

/// Search of all states that can be reached, tick by tick. Two states may differ only in the
/// iterations that the only lane has done. The search keeps the one ahead.
class ExhaustiveTime::Search {
 public:
  Search(const ExhaustiveTime& model, int iterations) : model_(model), iterations_(iterations) {}

  std::vector<int> Run(std::size_t states_max) {
    for (const State& state : model_.FirstStates()) Visit(state);
    std::vector<int> least;
    for (int tick = 0;; ++tick) {
      Close();
      while (done_ > static_cast<int>(least.size())) least.push_back(tick);
      if (done_ >= iterations_) return least;
      if (seen_.size() > states_max || layer_.empty()) return {};
      std::vector<State> before;
      before.swap(layer_);
      for (const State& state : before) Visit(model_.Tick(state));
    }
  }

 private:
  /// Adds all states that can be reached within the tick.
  void Close() {
    std::vector<State> next;
    for (std::size_t i = 0; i < layer_.size(); ++i) {
      next.clear();
      const State state = layer_[i];
      model_.StartOps(state, &next);
      model_.StartTransfers(state, &next);
      model_.Drop(state, &next);
      for (const State& reached : next) Visit(reached);
    }
  }

  void Visit(const State& state) {
    int done = iterations_;
    for (std::size_t lane = 0; lane < model_.lanes_.size(); ++lane) {
      done = std::min<int>(done, state.lanes[lane].iteration);
    }
    done_ = std::max(done_, done);
    const bool alone = model_.lanes_.size() == 1;
    const int progress = alone ? done : 0;
    const auto [entry, added] = seen_.try_emplace(KeyOf(state, !alone), progress);
    if (!added && entry->second >= progress) return;
    entry->second = progress;
    layer_.push_back(state);
  }

  std::uint64_t KeyOf(const State& state, bool with_iterations) const {
    std::uint64_t key = 0;
    for (const std::uint8_t copies : state.copies) Append(copies, 3, &key);
    for (std::size_t link = 0; link < kLinksMax; ++link) {
      for (const Transfer& transfer : {state.in[link], state.out[link]}) {
        Append(transfer.page, 3, &key);
        Append(transfer.left, 2, &key);
      }
    }
    for (const Lane& lane : state.lanes) {
      Append(lane.op, 3, &key);
      Append(lane.left, 3, &key);
      if (with_iterations) Append(lane.iteration, 4, &key);
    }
    return key;
  }

  const ExhaustiveTime& model_;
  const int iterations_;
  int done_ = 0;
  std::vector<State> layer_;
  std::unordered_map<std::uint64_t, int> seen_;
};

std::vector<int> ExhaustiveTime::LeastTicks(int iterations, std::size_t states_max) const {
  return Search(*this, iterations).Run(states_max);
}

}  // namespace sluice::analysis
