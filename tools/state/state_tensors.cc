#include "tools/state/state_tensors.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::tools {
namespace {

/// The names of a parameter's tensors, if its own is `key`.
std::vector<std::string> NamesUnder(const std::string& key,
                                    const optim::LayoutParameter& parameter,
                                    const optim::SaveLayout& layout) {
  std::vector<std::string> names;
  for (const auto& record : optim::RecordsOf(parameter, layout.kind, layout.state)) {
    names.push_back(key + record.suffix);
  }
  return names;
}

/// Names of tensors, each once.
class Names {
 public:
  /// Takes them all, or none.
  bool Take(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (taken_.contains(name)) return false;
    }
    taken_.insert(names.begin(), names.end());
    return true;
  }

 private:
  /// The key of the metadata.
  std::set<std::string> taken_ = {"__metadata__"};
};

/// A Runtime lets two tensors have one name; a file does not.
std::vector<std::string> UniqueKeys(const optim::SaveLayout& layout) {
  Names names;
  for (const StateCodes& codes : CodesOf(layout)) names.Take({codes.key});
  std::vector<std::string> keys;
  for (const optim::LayoutGroup& group : layout.groups) {
    for (const optim::LayoutParameter& parameter : group.parameters) {
      std::string key = parameter.name;
      for (int i = 2; key.empty() || !names.Take(NamesUnder(key, parameter, layout)); ++i) {
        key = fmt::format("{}#{}", parameter.name, i);
      }
      keys.push_back(std::move(key));
    }
  }
  return keys;
}

optim::SavedShape FlatShape(std::uint64_t count) { return {static_cast<std::int64_t>(count)}; }

bool IsUnsigned(OptimizerKind kind, int state) {
  return state == 1 || kind == OptimizerKind::kAdagrad;
}

}  // namespace

absl::StatusOr<StateDescription> DescribeState(const optim::SaveText& text) {
  StateDescription state{.step = text.step, .note = text.note, .rates = text.rates};
  SLUICE_ASSIGN_OR_RETURN(state.layout, optim::ParseLayout(text.layout));
  if (state.rates.size() != state.layout.groups.size()) {
    return optim::DamagedSave("it has not the rates of every group");
  }
  std::vector<std::uint64_t> counts;
  for (const optim::LayoutGroup& group : state.layout.groups) {
    for (const optim::LayoutParameter& parameter : group.parameters) {
      counts.push_back(parameter.count);
    }
  }
  SLUICE_ASSIGN_OR_RETURN(state.steps, optim::StepsOf(text, counts.size()));
  SLUICE_ASSIGN_OR_RETURN(state.shapes, optim::ShapesOf(text, counts));
  state.keys = UniqueKeys(state.layout);
  return state;
}

optim::SaveText SaveTextOf(const StateDescription& state, std::vector<std::uint64_t> hashes) {
  return {.layout = optim::WriteLayout(state.layout),
          .step = state.step,
          .note = state.note,
          .rates = state.rates,
          .hashes = std::move(hashes),
          .steps = state.steps,
          .shapes = state.shapes};
}

std::vector<StateTensor> TensorsOf(const StateDescription& state) {
  std::vector<StateTensor> tensors;
  auto key = state.keys.begin();
  auto shape = state.shapes.begin();
  for (const optim::LayoutGroup& group : state.layout.groups) {
    for (const optim::LayoutParameter& parameter : group.parameters) {
      for (const auto& record :
           optim::RecordsOf(parameter, state.layout.kind, state.layout.state)) {
        const bool alike = record.count == parameter.count;
        tensors.push_back({*key + record.suffix,
                           record.type,
                           record.count,
                           alike ? *shape : FlatShape(record.count)});
      }
      ++key;
      ++shape;
    }
  }
  return tensors;
}

std::vector<StateCodes> CodesOf(const optim::SaveLayout& layout) {
  std::vector<StateCodes> codes;
  if (layout.state != StateType::k8Bit) return codes;
  for (int s = 0; s < optim::StateCount(layout.kind); ++s) {
    const optim::Sign sign =
        IsUnsigned(layout.kind, s) ? optim::Sign::kUnsigned : optim::Sign::kSigned;
    codes.push_back({fmt::format("sluice.code.{}", StateLetter(s)), CodeTableOf(sign)});
  }
  return codes;
}

std::string_view StateMeaning(OptimizerKind kind, int state) {
  if (state == 1) return "second moment";
  switch (kind) {
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return "first moment";
    case OptimizerKind::kAdagrad:
      return "sum of squares";
    default:
      return "momentum";
  }
}

std::string_view StateLetter(int state) { return state == 0 ? "m" : "v"; }

}  // namespace sluice::tools
