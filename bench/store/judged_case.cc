#include "bench/store/judged_case.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "base/status.h"
#include "bench/store/plain_loop.h"
#include "bench/store/statistics.h"
#include "bench/store/store_side.h"
#include "fmt/format.h"

namespace sluice::bench {
namespace {

/// Share of the control that is asked for, and the bar of small pages and threads.
constexpr double kOfControl = 0.97;
constexpr double kOtherBar = 0.90;
constexpr int kPeerReps = 3;

template <typename Value>
std::vector<double> Each(const std::vector<Round>& rounds, const Value& value) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(value(round));
  return values;
}

/// Rounds of one side, with its CPU seconds per GiB.
struct SideRounds {
  std::vector<Round> rounds;
  std::vector<double> cpu;
};

/// Repetitions of one peer, each beside one of ours.
struct PeerReps {
  FioPeer peer;
  std::vector<double> ours = {};
  std::vector<double> theirs = {};
  std::vector<double> ratios = {};
  std::vector<double> ours_cpu = {};

  void Add(const Sample& our, const Sample& their) {
    ours.push_back(our.GiBPerSecond());
    theirs.push_back(their.GiBPerSecond());
    ratios.push_back(ours.back() / theirs.back());
    ours_cpu.push_back(our.CpuSecondsPerGiB());
  }
};

/// One case with its store, from the first round to the rows.
class JudgedRun {
 public:
  JudgedRun(const StoreSession& session, const Case& which)
      : session_(session), load_(session.MakeLoad(which)), name_(CaseName(which)) {}

  absl::Status Run();
  std::vector<Row> Rows() const;

 private:
  absl::StatusOr<double> RunCeiling();
  absl::Status RunRound();
  absl::Status RunLoop(double first);
  absl::Status RunPeers();
  Row MakeRow(const std::string& name, const SideRounds& side) const;
  Row MakePeerRow(const PeerReps& reps) const;

  const StoreSession& session_;
  const Load load_;
  const std::string name_;
  std::unique_ptr<StoreSide> store_;
  SideRounds ours_;
  SideRounds loop_;
  std::vector<double> ceiling_cpu_;
  std::vector<PeerReps> peers_;
};

absl::StatusOr<double> JudgedRun::RunCeiling() {
  SLUICE_ASSIGN_OR_RETURN(const Sample sample, session_.RunCeiling(load_));
  ceiling_cpu_.push_back(sample.CpuSecondsPerGiB());
  return sample.GiBPerSecond();
}

absl::Status JudgedRun::Run() {
  session_.ShowProgress(name_ + ": writing the pages");
  SLUICE_ASSIGN_OR_RETURN(store_, StoreSide::Create(session_.files(), load_));
  const int rounds = session_.options().rounds;
  for (int round = 1; round <= rounds; ++round) {
    session_.ShowProgress(fmt::format("{}: round {} of {}", name_, round, rounds));
    SLUICE_RETURN_IF_ERROR(RunRound());
  }
  if (!session_.fio_has_huge_pages() || !HasPeers(load_.which)) return absl::OkStatus();
  return RunPeers();
}

absl::Status JudgedRun::RunRound() {
  Round round;
  SLUICE_ASSIGN_OR_RETURN(round.first, RunCeiling());
  SLUICE_RETURN_IF_ERROR(session_.CheckInterrupted());
  SLUICE_ASSIGN_OR_RETURN(const Sample ours, store_->Run());
  round.ours = ours.GiBPerSecond();
  ours_.cpu.push_back(ours.CpuSecondsPerGiB());
  SLUICE_ASSIGN_OR_RETURN(round.second, RunCeiling());
  ours_.rounds.push_back(round);
  // The loop is the ceiling itself where fio has no huge pages.
  if (!session_.fio_has_huge_pages() || !HasPlainLoop(load_.which)) return absl::OkStatus();
  return RunLoop(round.second);
}

absl::Status JudgedRun::RunLoop(double first) {
  Round round{.first = first};
  SLUICE_ASSIGN_OR_RETURN(const Sample sample, session_.RunLoop(load_));
  round.ours = sample.GiBPerSecond();
  loop_.cpu.push_back(sample.CpuSecondsPerGiB());
  SLUICE_ASSIGN_OR_RETURN(round.second, RunCeiling());
  loop_.rounds.push_back(round);
  return absl::OkStatus();
}

absl::Status JudgedRun::RunPeers() {
  for (const FioPeer peer : kPeers) peers_.push_back({.peer = peer});
  for (int rep = 0; rep < std::min(kPeerReps, session_.options().rounds); ++rep) {
    for (PeerReps& reps : peers_) {
      session_.ShowProgress(PeerRowName(load_.which, reps.peer));
      SLUICE_RETURN_IF_ERROR(session_.CheckInterrupted());
      SLUICE_ASSIGN_OR_RETURN(const Sample ours, store_->Run());
      SLUICE_ASSIGN_OR_RETURN(const Sample theirs, session_.RunPeer(load_, reps.peer));
      reps.Add(ours, theirs);
    }
  }
  return absl::OkStatus();
}

Row JudgedRun::MakeRow(const std::string& name, const SideRounds& side) const {
  Row row = MakeJudgedRow(name, side.rounds);
  row.huge_pages = store_->huge();
  row.ceiling_of = session_.ceiling_name();
  row.depth = load_.depth;
  const double own_cpu = Median(side.cpu);
  const double ceiling_cpu = Median(ceiling_cpu_);
  if (own_cpu > 0) row.cpu_per_gib = own_cpu;  // fio tells none of a short run
  if (own_cpu > 0 && ceiling_cpu > 0) row.cpu_ratio = own_cpu / ceiling_cpu;
  return row;
}

Row JudgedRun::MakePeerRow(const PeerReps& reps) const {
  return {.name = PeerRowName(load_.which, reps.peer),
          .value = Median(reps.ours),
          .unit = "GiB/s",
          .reps = static_cast<int>(reps.ours.size()),
          .spread = Spread(reps.ours),
          .huge_pages = store_->huge(),
          .depth = load_.depth,
          .cpu_per_gib = Median(reps.ours_cpu),
          .peer = std::string(PeerName(reps.peer)),
          .peer_value = Median(reps.theirs),
          .peer_ratio = Median(reps.ratios)};
}

std::vector<Row> JudgedRun::Rows() const {
  std::vector<Row> rows = {MakeRow(name_, ours_)};
  rows.front().bar =
      CountsForMean(load_.which) ? kOfControl * rows.front().control_low.value_or(0) : kOtherBar;
  if (!loop_.rounds.empty()) rows.push_back(MakeRow(LoopRowName(load_.which), loop_));
  for (const PeerReps& reps : peers_) rows.push_back(MakePeerRow(reps));
  return rows;
}

double MeanOf(const std::vector<Row>& rows, std::optional<double> Row::*field) {
  std::vector<double> values;
  for (const Row& row : rows) values.push_back((row.*field).value_or(0));
  return GeometricMean(values);
}

}  // namespace

Row MakeJudgedRow(const std::string& name, const std::vector<Round>& rounds) {
  const auto rates = Each(rounds, [](const Round& round) { return round.ours; });
  const auto ratios = Each(rounds, [](const Round& round) { return round.Ratio(); });
  const auto controls = Each(rounds, [](const Round& round) { return round.Control(); });
  return {.name = name,
          .value = Median(rates),
          .unit = "GiB/s",
          .reps = static_cast<int>(rounds.size()),
          .spread = Spread(rates),
          .ceiling = Median(Each(rounds, [](const Round& round) { return round.Ceiling(); })),
          .ratio = Median(ratios),
          .control = Median(controls),
          .control_low = LowerQuartile(controls)};
}

absl::StatusOr<std::vector<Row>> RunJudgedCase(const StoreSession& session, const Case& which) {
  JudgedRun run(session, which);
  SLUICE_RETURN_IF_ERROR(run.Run());
  return run.Rows();
}

Row MakeMeanRow(const std::vector<Row>& rows) {
  std::vector<double> ratios;
  for (const Row& row : rows) ratios.push_back(row.ratio.value_or(0));
  Row mean{.name = kMeanName,
           .value = GeometricMean(ratios),
           .unit = "ratio",
           .reps = static_cast<int>(rows.size()),
           .spread = Spread(ratios),
           .ceiling = 1,
           .ceiling_of = rows.front().ceiling_of,
           .control_low = MeanOf(rows, &Row::control_low),
           .bar = kOfControl};
  mean.huge_pages =
      std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.huge_pages; });
  mean.ratio = mean.value;
  const bool cpu = std::all_of(
      rows.begin(), rows.end(), [](const Row& row) { return row.cpu_ratio.value_or(0) > 0; });
  if (cpu) mean.cpu_ratio = MeanOf(rows, &Row::cpu_ratio);
  return mean;
}

}  // namespace sluice::bench
