#include "bench/store/judged_case.h"

#include <functional>
#include <memory>
#include <utility>

#include "base/status.h"
#include "bench/store/hashing_choice.h"
#include "bench/store/plain_loop.h"
#include "bench/store/statistics.h"
#include "bench/store/store_side.h"
#include "fmt/format.h"

namespace sluice::bench {
namespace {

constexpr int kRoundsMin = 3;

/// `load` for a part of its time, which is not nothing: what is not judged leaves time for rounds.
Load PartOf(Load load, std::uint32_t parts) {
  load.milliseconds = (load.milliseconds + parts - 1) / parts;
  return load;
}

template <typename Value>
std::vector<double> Each(const std::vector<Round>& rounds, const Value& value) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(value(round));
  return values;
}

/// Something that runs beside the store, and is not judged.
struct Beside {
  const char* name;
  std::function<absl::StatusOr<Sample>(const Session& session, const Load& load)> run;
  /// That it runs as long as the ceiling does, and between two runs of that.
  bool in_full = false;
  std::vector<Round> rounds = {};
  std::vector<double> cpu = {};  ///< seconds per GiB
};

/// The ceiling where fio is none: the loop runs as that does.
Beside PlainLoop() {
  return {.name = kPlainLoop,
          .run =
              [](const Session& session, const Load& load) {
                return RunPlainLoop(*session.files(), load, session.options().interrupted);
              },
          .in_full = true};
}

std::vector<Beside> BesideStore(const Session& session, const Case& which) {
  const bool fio = session.fio_has_huge_pages();  // else the plain loop is the ceiling
  std::vector<Beside> all;
  if (fio && HasPlainLoop(which)) all.push_back(PlainLoop());
  if (fio && HasFioThreads(which)) {
    all.push_back({.name = kFioThreads, .run = std::mem_fn(&Session::RunFioThreads)});
  }
  return all;
}

/// What the rounds of one case share.
class JudgedRun {
 public:
  JudgedRun(const Session& session, const Load& load)
      : session_(session), load_(load), beside_(BesideStore(session, load.which)) {}

  absl::Status Start() {
    SLUICE_ASSIGN_OR_RETURN(side_, StoreSide::Create(session_.files(), load_, Pages::kHuge));
    return ChangeHashing();
  }
  absl::Status RunRound(int index);
  JudgedResult Result() const;

 private:
  absl::StatusOr<double> RunCeiling();
  /// By runs after one of the ceiling, as in the rounds. Few where the case or its file is not for
  /// many: it has to have four pages for each operation.
  absl::Status ChangeHashing();
  absl::StatusOr<double> RateAfterCeiling(std::uint32_t hashing);
  absl::Status RunBeside(const Round& round, Beside& beside);
  Row MakeRow(const std::string& name,
              const std::vector<Round>& rounds,
              const std::vector<double>& cpu) const;

  const Session& session_;
  const Load load_;
  std::unique_ptr<StoreSide> side_;
  std::vector<Round> rounds_;
  std::vector<Beside> beside_;
  std::vector<double> cpu_ours_;
  std::vector<double> cpu_ceiling_;
};

absl::StatusOr<double> JudgedRun::RunCeiling() {
  SLUICE_ASSIGN_OR_RETURN(const Sample sample, session_.RunCeiling(load_));
  cpu_ceiling_.push_back(sample.CpuSecondsPerGiB());
  return sample.GiBPerSecond();
}

absl::StatusOr<double> JudgedRun::RateAfterCeiling(std::uint32_t hashing) {
  const Load third = PartOf(load_, 3);
  SLUICE_RETURN_IF_ERROR(side_->ChangeHashing(hashing));
  SLUICE_RETURN_IF_ERROR(session_.RunCeiling(third).status());
  SLUICE_RETURN_IF_ERROR(session_.CheckInterrupted());
  SLUICE_ASSIGN_OR_RETURN(const Sample ours, side_->RunFor(third.milliseconds));
  return ours.GiBPerSecond();
}

absl::Status JudgedRun::ChangeHashing() {
  const std::uint64_t page_bytes = load_.which.page_bytes;
  const std::uint32_t most = load_.depth + ManyHashing(load_.which);
  if (!MayHashMany(load_.which) || !HasPages(session_.options(), page_bytes, most)) {
    return absl::OkStatus();
  }
  session_.ShowProgress(fmt::format("{}: how many pages to hash", CaseName(load_.which)));
  SLUICE_ASSIGN_OR_RETURN(
      const std::uint32_t hashing,
      ChooseHashing(load_.which, [this](std::uint32_t pages) { return RateAfterCeiling(pages); }));
  return side_->ChangeHashing(hashing);
}

absl::Status JudgedRun::RunRound(int index) {
  session_.ShowProgress(fmt::format(
      "{}: round {} of {}", CaseName(load_.which), index + 1, session_.options().rounds));
  Round round;
  SLUICE_ASSIGN_OR_RETURN(round.first, RunCeiling());
  SLUICE_RETURN_IF_ERROR(session_.CheckInterrupted());
  SLUICE_ASSIGN_OR_RETURN(const Sample ours, side_->Run());
  round.ours = ours.GiBPerSecond();
  cpu_ours_.push_back(ours.CpuSecondsPerGiB());
  SLUICE_ASSIGN_OR_RETURN(round.second, RunCeiling());
  rounds_.push_back(round);
  for (Beside& each : beside_) SLUICE_RETURN_IF_ERROR(RunBeside(round, each));
  return session_.CheckInterrupted();
}

absl::Status JudgedRun::RunBeside(const Round& round, Beside& beside) {
  SLUICE_RETURN_IF_ERROR(session_.CheckInterrupted());
  const Load load = beside.in_full ? load_ : PartOf(load_, 2);
  SLUICE_ASSIGN_OR_RETURN(const Sample sample, beside.run(session_, load));
  beside.cpu.push_back(sample.CpuSecondsPerGiB());
  Round its{.first = round.first, .ours = sample.GiBPerSecond(), .second = round.second};
  if (beside.in_full) {
    its.first = round.second;
    SLUICE_ASSIGN_OR_RETURN(its.second, RunCeiling());
  }
  beside.rounds.push_back(its);
  return absl::OkStatus();
}

Row JudgedRun::MakeRow(const std::string& name,
                       const std::vector<Round>& rounds,
                       const std::vector<double>& cpu) const {
  Row row = MakeJudgedRow(name, rounds);
  row.huge_pages = side_->huge();
  row.registered_bytes = side_->registered_bytes();
  row.ceiling_of = session_.ceiling_name();
  row.depth = load_.depth;
  row.hashing = side_->hashing();
  row.file_bytes = load_.file_bytes;
  const double own_cpu = Median(cpu);
  const double ceiling_cpu = Median(cpu_ceiling_);
  if (own_cpu > 0) row.cpu_per_gib = own_cpu;  // fio tells none of a short run
  if (own_cpu > 0 && ceiling_cpu > 0) row.cpu_ratio = own_cpu / ceiling_cpu;
  return row;
}

JudgedResult JudgedRun::Result() const {
  const std::string name = CaseName(load_.which);
  JudgedResult result{.row = MakeRow(name, rounds_, cpu_ours_)};
  for (const Beside& each : beside_) {
    Row row = MakeRow(fmt::format("{}/{}", each.name, name), each.rounds, each.cpu);
    row.registered_bytes.reset();  // no ring of theirs knows buffers
    row.hashing.reset();           // and nothing is hashed
    result.beside.push_back(std::move(row));
  }
  return result;
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
          .ratio_spread = Spread(ratios),
          .control = Median(controls),
          .control_low = LowerQuartile(controls)};
}

absl::StatusOr<JudgedResult> RunJudgedCase(const Session& session,
                                           const Case& which,
                                           double minutes_end) {
  session.ShowProgress(CaseName(which) + ": choosing the depth");
  SLUICE_ASSIGN_OR_RETURN(const std::uint32_t depth, session.ChooseDepth(which));
  JudgedRun run(session, session.MakeLoad(which, depth));
  SLUICE_RETURN_IF_ERROR(run.Start());
  for (int round = 0; round < session.options().rounds; ++round) {
    if (round >= kRoundsMin && session.minutes() > minutes_end) break;
    SLUICE_RETURN_IF_ERROR(run.RunRound(round));
  }
  return run.Result();
}

}  // namespace sluice::bench
