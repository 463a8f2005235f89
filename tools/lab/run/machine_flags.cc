#include "tools/lab/run/machine_flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "sluice/units.h"

namespace sluice::tools {
namespace {

using TierPair = std::pair<TierKind, TierKind>;

std::vector<std::string> Split(const std::string& text, char separator) {
  return absl::StrSplit(text, separator);
}

/// "NAME=REST".
absl::StatusOr<std::pair<std::string, std::string>> ParseAssignment(const std::string& text,
                                                                    std::string_view like) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    return absl::InvalidArgumentError(fmt::format("\"{}\" is not of the form {}", text, like));
  }
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

absl::StatusOr<TierKind> ParseKind(const std::string& text) {
  SLUICE_ASSIGN_OR_RETURN(const TierId tier, ParseTierId(text));
  if (tier.index != 0) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\": one tier of a kind is simulated; give their sum as {}",
                    text,
                    ToString(tier.kind)));
  }
  return tier.kind;
}

absl::StatusOr<double> ParseRate(const std::string& text) {
  constexpr std::string_view kPerSecond = "/s";
  absl::StatusOr<Bytes> bytes = absl::InvalidArgumentError("");
  if (text.ends_with(kPerSecond)) bytes = ParseBytes(text.substr(0, text.size() - 2));
  if (!bytes.ok() || *bytes == Bytes(0)) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is no rate; give one like 15.754GiB/s", text));
  }
  return static_cast<double>(bytes->count());
}

absl::StatusOr<double> ParseLatency(const std::string& text) {
  constexpr double kLongest = 1000;
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
      {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}};
  for (const auto& [unit, seconds] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::string number = text.substr(0, text.size() - unit.size());
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool whole = error == std::errc() && end == number.data() + number.size();
    if (!whole || !std::isfinite(value) || value < 0) continue;
    if (value * seconds <= kLongest) return value * seconds;
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is longer than any link takes; give at most 1000s", text));
  }
  return absl::InvalidArgumentError(fmt::format("\"{}\" is no latency; give one like 50us", text));
}

/// "/s" belongs to the rate, every other slash separates: "15GiB/s/12GiB/s" is two rates.
absl::StatusOr<std::vector<double>> ParseRates(const std::string& text) {
  std::vector<double> rates;
  std::string rate;
  for (const std::string& part : Split(text, '/')) {
    rate = rate.empty() ? part : rate + "/" + part;
    if (part != "s") continue;
    SLUICE_ASSIGN_OR_RETURN(const double value, ParseRate(rate));
    rates.push_back(value);
    rate.clear();
  }
  if (!rate.empty() || rates.empty() || rates.size() > 3) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is not IN[/OUT][/BOTH]; give rates like 3.2GiB/s/2.5GiB/s", text));
  }
  return rates;
}

absl::StatusOr<sim::MachinePath> ParsePath(const std::string& text) {
  const std::vector<std::string> parts = Split(text, ',');
  SLUICE_ASSIGN_OR_RETURN(const std::vector<double> rates, ParseRates(parts[0]));
  bool has_latency = false;
  sim::MachinePath path{.in_bytes_per_s = rates[0],
                        .out_bytes_per_s = rates.size() > 1 ? rates[1] : rates[0],
                        .both_bytes_per_s = rates.size() > 2 ? rates[2] : 0};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == "half") {
      if (rates.size() > 1) {
        return absl::InvalidArgumentError(
            fmt::format("\"{}\": with half the directions share one rate; give only IN", text));
      }
      path.both_bytes_per_s = path.in_bytes_per_s;
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(path.latency_s, ParseLatency(parts[i]));
    if (has_latency) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" has two latencies; leave one out", text));
    }
    has_latency = true;
  }
  return path;
}

absl::StatusOr<TierPair> ParseLinkName(const std::string& name) {
  const std::size_t at = name.find('-');
  if (at == std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" names no link; give two tiers, as hbm-dram", name));
  }
  SLUICE_ASSIGN_OR_RETURN(const TierKind above, ParseKind(name.substr(0, at)));
  SLUICE_ASSIGN_OR_RETURN(const TierKind below, ParseKind(name.substr(at + 1)));
  if (above < below) return std::pair(above, below);
  return absl::InvalidArgumentError(fmt::format("\"{}\": name the faster tier first", name));
}

absl::StatusOr<std::map<TierKind, std::uint64_t>> ParseTiers(const std::string& text) {
  std::map<TierKind, std::uint64_t> tiers;
  for (const std::string& part : Split(text, ',')) {
    SLUICE_ASSIGN_OR_RETURN(const auto assignment,
                            ParseAssignment(part, "TIER=BYTES, as hbm=40GiB"));
    SLUICE_ASSIGN_OR_RETURN(const TierKind kind, ParseKind(assignment.first));
    SLUICE_ASSIGN_OR_RETURN(const Bytes bytes, ParseBytes(assignment.second));
    if (bytes.count() == sim::MachineTier::kUnlimited) {
      return absl::InvalidArgumentError(fmt::format(
          "--tiers: {} of {} has no end; leave the tier out, and a link that leads to it "
          "adds one as large as needed",
          ToString(kind),
          assignment.second));
    }
    if (!tiers.emplace(kind, bytes.count()).second) {
      return absl::InvalidArgumentError(
          fmt::format("{} is given twice; leave one out", ToString(kind)));
    }
  }
  return tiers;
}

/// A link that is named several times has as many paths.
absl::StatusOr<std::map<TierPair, sim::MachineLink>> ParseLinks(
    const std::vector<std::string>& texts) {
  std::map<TierPair, sim::MachineLink> links;
  for (const std::string& text : texts) {
    SLUICE_ASSIGN_OR_RETURN(const auto assignment,
                            ParseAssignment(text, "NAME=IN[/OUT][/BOTH][,LATENCY][,half]"));
    SLUICE_ASSIGN_OR_RETURN(const TierPair ends, ParseLinkName(assignment.first));
    const absl::StatusOr<sim::MachinePath> path = ParsePath(assignment.second);
    if (!path.ok()) return base::Annotate(path.status(), assignment.first);
    std::vector<sim::MachinePath>& paths = links[ends].paths;
    paths.push_back(*path);
    if (paths.size() > sim::MachineLink::kPathsMax) {
      return absl::InvalidArgumentError(fmt::format("{} has more than {} paths; give some as one",
                                                    assignment.first,
                                                    sim::MachineLink::kPathsMax));
    }
  }
  return links;
}

std::string NameOf(TierKind above, TierKind below) {
  return fmt::format("{}-{}", ToString(above), ToString(below));
}

}  // namespace

absl::StatusOr<sim::Machine> ParseMachine(const std::string& tiers_text,
                                          const std::vector<std::string>& link_texts,
                                          bool serial) {
  auto tiers = ParseTiers(tiers_text);
  if (!tiers.ok()) return base::Annotate(tiers.status(), "--tiers");
  auto links = ParseLinks(link_texts);
  if (!links.ok()) return base::Annotate(links.status(), "--link");
  const TierKind lowest = tiers->rbegin()->first;
  const auto below = std::find_if(links->begin(), links->end(), [lowest](const auto& link) {
    return link.first.first == lowest;
  });
  if (below != links->end()) tiers->emplace(below->first.second, sim::MachineTier::kUnlimited);
  sim::Machine machine;
  for (const auto& [kind, bytes] : *tiers) machine.tiers.push_back({kind, bytes});
  if (machine.tiers.size() < 2) {
    return absl::InvalidArgumentError(
        "--tiers: one tier leaves nothing to move; name another one, as dram=128GiB");
  }
  for (std::size_t i = 0; i + 1 < machine.tiers.size(); ++i) {
    const TierPair ends(machine.tiers[i].kind, machine.tiers[i + 1].kind);
    const auto found = links->find(ends);
    const std::string name = NameOf(ends.first, ends.second);
    if (found == links->end()) {
      return absl::InvalidArgumentError(fmt::format(
          "--link {0}=IN is missing: say how fast {0} is, as {0}=15.754GiB/s,50us", name));
    }
    machine.links.push_back(found->second);
    for (sim::MachinePath& path : machine.links.back().paths) path.serial = serial;
    links->erase(found);
  }
  if (!links->empty()) {
    const TierPair ends = links->begin()->first;
    return absl::InvalidArgumentError(
        fmt::format("--link {}: these are not neighbours among the tiers; give their sizes in "
                    "--tiers, or leave the link out",
                    NameOf(ends.first, ends.second)));
  }
  return machine;
}

std::string LinkName(const sim::Machine& machine, std::size_t link) {
  return NameOf(machine.tiers[link].kind, machine.tiers[link + 1].kind);
}

}  // namespace sluice::tools
