#include "tests/faults/cases/fault_cases.h"

#include <cerrno>

#include "tests/faults/cases/fault_plans.h"

namespace sluice::faults {
namespace {

using Kind = FaultPlan::Kind;

/// The attempts that a store makes by default.
constexpr std::uint64_t kAttempts = 6;
constexpr std::uint64_t kBelowTheBound = kAttempts - 1;

const FaultPlan kEioStays{
    .kind = Kind::kError, .error_number = EIO, .times = kAlways, .direction = kRead};

std::string VerbOf(io::IoDirection direction) { return direction == kRead ? "Read" : "Write"; }

/// Counts that end after a block, or inside of one. Another attempt moves the rest.
void AddSplits(io::IoDirection direction, std::vector<FaultCase>* cases) {
  const std::string verb = VerbOf(direction);
  for (const std::uint64_t moved : {4096, 4700, 8191}) {
    cases->push_back({.name = verb + "Short" + std::to_string(moved) + "Once",
                      .options = OnSplitPages(Short(direction, moved, 1)),
                      .counter = Counter::kShortIo});
  }
  for (const std::uint64_t moved : {4096, 4097, 8191}) {
    cases->push_back({.name = verb + "Short" + std::to_string(moved) + "Always",
                      .options = OnSplitPages(Short(direction, moved, kAlways)),
                      .counter = Counter::kShortIo});
  }
}

/// A write finds another place where only one refuses it.
FaultPlan Persistent(FaultPlan plan) {
  plan.everywhere = plan.direction == kWrite;
  return plan;
}

/// Counts that bring no progress.
void AddStops(io::IoDirection direction, std::vector<FaultCase>* cases) {
  const std::string verb = VerbOf(direction);
  const Code stopped = direction == kRead ? Code::kDataLoss : Code::kInternal;
  const Seen seen = direction == kRead ? Seen::kLoss : Seen::kFull;
  for (const std::uint64_t moved : {1, 512, 4095}) {
    cases->push_back({.name = verb + "Short" + std::to_string(moved) + "Once",
                      .options = WithPlan(Short(direction, moved, 1)),
                      .counter = Counter::kRetries});
  }
  cases->push_back({.name = verb + "Short512Always",
                    .options = WithPlan(Persistent(Short(direction, 512, kAlways))),
                    .code = stopped,
                    .seen = seen,
                    .certain = true,
                    .counter = Counter::kRetries});
  // The file has ended: a read is lost at once. A write that stops once is made again elsewhere.
  cases->push_back({.name = verb + "NothingOnce",
                    .options = WithPlan(Short(direction, 0, 1)),
                    .code = stopped,
                    .seen = direction == kRead ? Seen::kLoss : Seen::kNothing,
                    .certain = true});
  cases->push_back({.name = verb + "NothingAlways",
                    .options = WithPlan(Persistent(Short(direction, 0, kAlways))),
                    .code = stopped,
                    .seen = seen,
                    .certain = true});
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const FaultCase& fault) { return out << fault.name; }

std::vector<FaultCase> ShortCountCases() {
  std::vector<FaultCase> cases;
  for (const io::IoDirection direction : {kRead, kWrite}) {
    AddSplits(direction, &cases);
    AddStops(direction, &cases);
  }
  return cases;
}

std::vector<FaultCase> PassingErrorCases() {
  std::vector<FaultCase> cases;
  for (const io::IoDirection direction : {kRead, kWrite}) {
    const std::string verb = VerbOf(direction);
    const Code unavailable = Code::kUnavailable;
    cases.push_back(Passes(verb + "EintrPasses", Error(direction, EINTR, kBelowTheBound)));
    cases.push_back(Passes(verb + "EagainPasses", Error(direction, EAGAIN, 2)));
    cases.push_back(Passes(verb + "EnomemPasses", Refused(direction, ENOMEM, kBelowTheBound)));
    cases.push_back(
        Stays(verb + "EintrStays", Persistent(Error(direction, EINTR, kAlways)), unavailable));
    cases.push_back(
        Stays(verb + "EagainStays", Persistent(Refused(direction, EAGAIN, kAlways)), unavailable));
    cases.push_back(
        Stays(verb + "EnomemStays", Persistent(Refused(direction, ENOMEM, kAlways)), unavailable));
    FaultCase bound =
        MadeAgain(verb + "EagainAtTheBound", Error(direction, EAGAIN, kAttempts), unavailable);
    bound.counter = Counter::kRetries;
    cases.push_back(bound);
  }
  FaultCase place =
      MadeAgain("WriteEagainStaysInOnePlace", Refused(kWrite, EAGAIN, kAlways), Code::kUnavailable);
  place.counter = Counter::kRetries;
  cases.push_back(place);
  cases.push_back(Passes("ReadEioOnce", Error(kRead, EIO, 1)));
  cases.push_back(Passes("ReadEioPasses", Error(kRead, EIO, kBelowTheBound)));
  cases.push_back(Passes("ReadEbadfPasses", Refused(kRead, EBADF, kBelowTheBound)));
  cases.push_back(Stays("ReadEbadfStays", Refused(kRead, EBADF, kAlways), Code::kInternal));
  const FaultPlan gone = Refused(kRead, ENODEV, kAlways);
  cases.push_back(Stays("ReadEnodevStays", gone, Code::kInternal));
  FaultCase again = Stays("ReadEnodevStaysOfAReproduciblePage", gone, Code::kInternal);
  again.options.target = Target::kReproducible;
  again.seen = Seen::kNothing;
  cases.push_back(again);
  return cases;
}

std::vector<FaultCase> UnreadablePageCases() {
  const FaultPlan flips = Silent(kRead, Kind::kFlip, kAlways);
  const FaultPlan flips_twice = Silent(kRead, Kind::kFlip, 2);
  const FaultPlan enodata = Refused(kRead, ENODATA, kAlways);
  return {
      Unreadable("ReadEioStaysOfAReproduciblePage", kEioStays, Target::kReproducible),
      Unreadable("ReadFlipStaysOfAReproduciblePage", flips, Target::kReproducible),
      Unreadable("ReadEioStaysOfASoleCopy", kEioStays, Target::kSoleCopy),
      Unreadable("ReadEnodataStaysOfASoleCopy", enodata, Target::kSoleCopy),
      Unreadable("ReadFlipTwiceOfASoleCopy", flips_twice, Target::kSoleCopy),
      Unreadable("ReadFlipStaysOfASoleCopy", flips, Target::kSoleCopy),
  };
}

std::vector<FaultCase> WriteErrorCases() {
  const Code full = Code::kResourceExhausted;
  // A tier that refuses three pages in a row takes none until an op has been told.
  constexpr std::uint64_t kToFence = 3;
  return {
      MadeAgain("WriteEioOnce", Refused(kWrite, EIO, 1), Code::kInternal),
      MadeAgain("WriteEioStaysInOnePlace", Refused(kWrite, EIO, kAlways), Code::kInternal),
      Full("WriteEioEverywhere", Everywhere(Error(kWrite, EIO, kAlways)), Code::kInternal),
      MadeAgain("WriteEnospcOnce", Refused(kWrite, ENOSPC, 1), full),
      MadeAgain("WriteThenEnospcOnce", Error(kWrite, ENOSPC, 1), full),
      Full("WriteEnospcThrice", Everywhere(Refused(kWrite, ENOSPC, kToFence)), full),
      MadeAgain("WriteEnospcStaysInOnePlace", Refused(kWrite, ENOSPC, kAlways), full),
      Full("WriteEnospcEverywhere", Everywhere(Error(kWrite, ENOSPC, kAlways)), full),
      Full("WriteEdquotEverywhere", Everywhere(Refused(kWrite, EDQUOT, kAlways)), full),
      Full("WriteEfbigEverywhere", Everywhere(Error(kWrite, EFBIG, kAlways)), full),
  };
}

std::vector<FaultCase> CorruptionCases() {
  const auto of_a_read = [](const std::string& name, Kind kind) {
    return FaultCase{.name = name,
                     .options = WithPlan(Silent(kRead, kind)),
                     .counter = Counter::kChecksumFailures};
  };
  return {
      of_a_read("ReadFlipOnce", Kind::kFlip),
      of_a_read("ReadZeroTailOnce", Kind::kZeroTail),
      Lost("WriteFlip", WithPlan(Silent(kWrite, Kind::kFlip))),
      Lost("WriteZeroTail", WithPlan(Silent(kWrite, Kind::kZeroTail))),
      Lost("WriteTorn", OnSplitPages(Silent(kWrite, Kind::kTornWrite))),
      Lost("WriteFlipFromThereOn", WithRoom(FromThereOn(kWrite, Kind::kFlip))),
  };
}

std::vector<FaultCase> LostWriteCases() {
  const auto lost = [](const std::string& name, Kind kind, Target target) {
    return Lost(name, WithPlan(Silent(kWrite, kind), target));
  };
  const auto from_there_on = [](const std::string& name, Kind kind, Target target) {
    return Lost(name, WithRoom(FromThereOn(kWrite, kind), target));
  };
  return {
      lost("WriteLost", Kind::kLostWrite, Target::kAny),
      lost("WriteStale", Kind::kStaleWrite, Target::kRewritten),
      lost("WriteMisdirected", Kind::kMisdirected, Target::kAny),
      from_there_on("WriteLostFromThereOn", Kind::kLostWrite, Target::kAny),
      from_there_on("WriteStaleFromThereOn", Kind::kStaleWrite, Target::kRewritten),
      from_there_on("WriteMisdirectedFromThereOn", Kind::kMisdirected, Target::kAny),
  };
}

std::vector<FaultCase> RegistrationCases() {
  constexpr std::uint64_t kFrame = 4096;  // bytes of one frame of two
  return {
      Unregistered("RegistrationRefusedOnce", 0, 1),
      Unregistered("RegistrationRefusedFromThereOn", 0, kAlways),
      Unregistered("RegistrationInPartOnce", kFrame, 1),
      Unregistered("RegistrationInPartFromThereOn", kFrame, kAlways),
  };
}

std::vector<FaultCase> FullRingCases() {
  // Each attempt of a request waits for a hundred refusals before it fails. A page is read or
  // written three times before its user is told.
  constexpr std::uint64_t kForLong = 3 * 100 * (kAttempts + 2);
  FaultCase busy{.name = "RingOfFourEagainForAWhile"};
  busy.options = WithPlan(Everywhere({.kind = Kind::kRefused, .error_number = EAGAIN, .times = 4}));
  busy.options.disk.in_flight_max = 4;
  busy.counter = Counter::kRetries;
  FaultCase for_long = RefusedSubmissions("SubmissionEagainForLong", EAGAIN, kForLong);
  for_long.code = Code::kUnavailable;
  for_long.seen = Seen::kFull;
  return {
      busy,
      RefusedSubmissions("SubmissionEbusyForAWhile", EBUSY, 20),
      RefusedSubmissions("SubmissionEagainThatAnAttemptSurvives", EAGAIN, 150),
      for_long,
  };
}

std::vector<FaultCase> SlowAttemptCases() {
  const auto late = [](const std::string& name, std::chrono::milliseconds pause) {
    FaultPlan plan = Once(Kind::kLate);
    plan.pause = pause;
    return FaultCase{.name = name, .options = WithPlan(plan)};
  };
  FaultCase all = late("AttemptsOf100MillisecondsFromThereOn", std::chrono::milliseconds(100));
  all.options.plan.times = kAlways;
  all.options.plan.everywhere = true;
  return {
      all,
      late("AttemptOf100Milliseconds", std::chrono::milliseconds(100)),
      late("AttemptOf1000Milliseconds", std::chrono::milliseconds(1000)),
      {.name = "AttemptThatOutlastsAllOthers", .options = WithPlan(Once(Kind::kHeld))},
      {.name = "AttemptThatBeginsAfterAllOthers", .options = WithPlan(Once(Kind::kHeldBefore))},
  };
}

std::vector<FaultCase> OutOfOrderCases() {
  FaultPlan shuffled{.kind = Kind::kShuffled, .times = kAlways, .everywhere = true};
  FaultCase seeds{.name = "OtherOrders", .seeds = true};
  seeds.options.disk.latency_max = std::chrono::milliseconds(20);
  return {
      seeds,
      {.name = "ShuffledFromThereOn", .options = WithPlan(shuffled)},
  };
}

std::vector<FaultCase> RefusedDirectIoCases() {
  const Code code = Code::kInternal;
  FaultPlan all{
      .kind = Kind::kRefused, .error_number = EINVAL, .times = kAlways, .everywhere = true};
  return {
      Passes("ReadEinvalOnce", Refused(kRead, EINVAL, 1)),
      Stays("ReadEinvalStays", Refused(kRead, EINVAL, kAlways), code),
      MadeAgain("WriteEinvalOnce", Refused(kWrite, EINVAL, 1), code),
      MadeAgain("WriteEinvalStaysInOnePlace", Refused(kWrite, EINVAL, kAlways), code),
      Full("EinvalFromThereOn", all, code),
      Passes("ReadMisaligned", Silent(kRead, Kind::kMisaligned)),
      Stays("ReadMisalignedStays", Silent(kRead, Kind::kMisaligned, kAlways), code),
      MadeAgain("WriteMisaligned", Silent(kWrite, Kind::kMisaligned), code),
  };
}

std::vector<FaultCase> DestructionCases() {
  FaultCase plain{.name = "DestroyedWithIoInFlight"};
  plain.options = WithPlan(Once(Kind::kNone));
  plain.options.act = Act::kDestroy;
  FaultCase retries{.name = "DestroyedWhileAttemptsAreRepeated"};
  retries.options =
      WithPlan(Everywhere({.kind = Kind::kRefused, .error_number = EAGAIN, .times = kAlways}));
  retries.options.act = Act::kDestroy;
  return {plain, retries};
}

std::vector<FaultCase> ForkCases() {
  FaultCase fork{.name = "ForkedChildIsRefused"};
  fork.options = WithPlan(Once(Kind::kNone));
  fork.options.act = Act::kFork;
  return {fork};
}

std::vector<FaultCase> ThreeTierCases() {
  const FaultPlan no_space = Refused(kWrite, ENOSPC, kAlways);
  std::vector<FaultCase> cases = {
      Unreadable("ReadEioStaysOfAReproduciblePage", kEioStays, Target::kReproducible),
      Unreadable("ReadEioStaysOfASoleCopy", kEioStays, Target::kSoleCopy),
      LostWriteCases().front(),
      Full("WriteEnospcEverywhere", Everywhere(no_space), Code::kResourceExhausted),
      {.name = "AttemptThatOutlastsAllOthers", .options = WithPlan(Once(Kind::kHeld))},
  };
  for (FaultCase& fault : cases) {
    fault.name += "OnThreeTiers";
    fault.options.pager.frames = {8, 9, 48};
  }
  return cases;
}

}  // namespace sluice::faults
