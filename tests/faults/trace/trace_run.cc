#include "tests/faults/trace/trace_run.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "tests/faults/hosts/forked_child.h"
#include "tests/faults/trace/frame_registration.h"
#include "tests/faults/trace/trace_user.h"

namespace sluice::faults {
namespace {

/// Limit of steps, far more than any run takes.
constexpr std::uint64_t kStepsMax = 1'000'000;
/// Tries after the fault has gone. The next op that needs a fenced tier tries it again.
constexpr int kTriesAfterHealing = 3;

/// The faults strike the first drive.
Place FaultyPlace(std::uint64_t page) { return {.page = page}; }

/// A trace, its user, a pager and a store. The run makes time pass.
class TraceRun {
 public:
  TraceRun(const Trace& trace, const RunOptions& options);
  RunOutcome Run();

 private:
  StoreHostOptions HostOptions();
  std::function<bool(const io::IoCommand&)> Concern();

  void RunSteps();
  void ReadAll();
  void HealAndReadAll();
  void ReadHealed(std::uint32_t tensor);
  void Finish();

  bool GoesOn() const { return verdict_.ok() && !ended_; }
  bool Step();
  template <typename Ready>
  void WaitUntil(Ready ready);
  void WaitUntilIdle();
  void ActIfStruck();
  void Destroy();
  void CheckDrives();

  const Trace& trace_;
  const RunOptions options_;
  core::Verdict verdict_;
  SlotLedger ledger_;
  TraceUser user_;
  RunOutcome& outcome_;
  std::unique_ptr<StoreHost> host_;
  std::unique_ptr<Pager> pager_;
  std::optional<FrameRegistration> registration_;  ///< none if the run registers no memory
  std::uint64_t steps_ = 0;
  bool acted_ = false;
  bool ended_ = false;
};

TraceRun::TraceRun(const Trace& trace, const RunOptions& options)
    : trace_(trace),
      options_(options),
      ledger_(options.pager.frames.back()),
      user_(
          trace, static_cast<core::TierIndex>(options.pager.frames.size() - 1), ledger_, &verdict_),
      outcome_(user_.outcome()),
      host_(MakeStoreHost(HostOptions(), ledger_)) {
  outcome_.unavailable = host_->unavailable();
}

StoreHostOptions TraceRun::HostOptions() {
  const std::uint64_t page_bytes = options_.pager.page_bytes;
  return {.medium = options_.medium,
          .page_bytes = page_bytes,
          .slots = options_.pager.frames.back(),
          .drives = options_.drives,
          .plan = options_.plan,
          .hooks = {.concerns = Concern(),
                    .on_harm = [this](std::uint64_t page) { ledger_.Harm(FaultyPlace(page)); },
                    .stale =
                        [this](std::uint64_t page, std::span<std::byte> out) {
                          const PageIndex index = ledger_.PageIn(FaultyPlace(page));
                          FillPage(user_.model().Page(index).older, out);
                        },
                    .elsewhere = [this](std::uint64_t page) -> std::uint64_t {
                      return ledger_.OtherAtRest(FaultyPlace(page)).page;
                    }},
          .on_fenced = [this](const io::FencedDrive& drive) { pager_->Fence(drive); },
          .disk = options_.disk};
}

std::function<bool(const io::IoCommand&)> TraceRun::Concern() {
  const auto place = [bytes = options_.pager.page_bytes](const io::IoCommand& command) {
    return FaultyPlace(command.offset / bytes);
  };
  switch (options_.target) {
    case Target::kAny:
      return {};
    case Target::kReproducible:
      return [=, this](const io::IoCommand& c) { return ledger_.Reproducible(place(c)); };
    case Target::kSoleCopy:
      return [=, this](const io::IoCommand& c) { return !ledger_.Reproducible(place(c)); };
    case Target::kRewritten:
      return [=, this](const io::IoCommand& c) {
        return user_.model().Page(ledger_.PageIn(place(c))).older != 0;
      };
  }
  return {};
}

RunOutcome TraceRun::Run() {
  if (!outcome_.unavailable.empty()) return outcome_;
  pager_ = std::make_unique<Pager>(options_.pager,
                                   Pager::Parts{.store = &host_->store(),
                                                .executor = &host_->executor(),
                                                .ledger = &ledger_,
                                                .user = &user_,
                                                .verdict = &verdict_});
  if (options_.act == Act::kRegister) {
    const std::span<std::byte> frames =
        pager_->Frames(static_cast<core::TierIndex>(options_.pager.frames.size() - 2));
    registration_.emplace(*host_, frames, options_.pager.page_bytes, options_.plan, verdict_);
  }
  user_.Begin(pager_.get(), &host_->executor());
  RunSteps();
  ReadAll();
  HealAndReadAll();
  Finish();
  return outcome_;
}

void TraceRun::Finish() {
  if (!ended_) {
    outcome_.struck = host_->struck();
    outcome_.attempts = host_->engine().operations();
    outcome_.stats = host_->store().stats();
    CheckDrives();
    if (host_->engine().accepted_misaligned()) verdict_.Fail("what is misaligned was not refused");
  }
  outcome_.time = host_->now();
  pager_->Stop();
  host_->Heal();
  host_->engine().ReleaseHeld();
  host_->Close();
  if (pager_->done_calls() != pager_->started()) {
    verdict_.Fail(fmt::format("{} operations were begun, {} are done after the store has closed",
                              pager_->started(),
                              pager_->done_calls()));
  }
  outcome_.moved = ledger_.moved();
  if (!ledger_.broken().empty()) verdict_.Fail(ledger_.broken());
  outcome_.violation = verdict_.text();
}

/// Drives without faults must stay in use.
void TraceRun::CheckDrives() {
  const std::vector<DriveStats>& drives = outcome_.stats.drives;
  if (drives.size() != options_.drives) verdict_.Fail("the store has other drives than it had");
  for (std::size_t i = 1; i < drives.size(); ++i) {
    if (drives[i].fenced || drives[i].retired > 0) verdict_.Fail("a good drive is given up");
    if (drives[i].writes == 0) verdict_.Fail("a good drive is not used");
  }
}

// --- the trace --------------------------------------------------------------------------------

void TraceRun::RunSteps() {
  for (std::size_t i = 0; i < trace_.steps.size(); ++i) {
    const TraceStep& step = trace_.steps[i];
    WaitUntil([&] { return user_.MayPerform(step); });
    if (!GoesOn()) return;
    if (registration_) registration_->Advance(i, trace_.steps.size());
    user_.Perform(step);
    ActIfStruck();
  }
  WaitUntilIdle();
  if (registration_ && GoesOn()) registration_->Repeat();
}

void TraceRun::ReadAll() {
  for (std::uint32_t i = 0; i < trace_.tensors.size(); ++i) {
    const TraceStep read{.kind = TraceKind::kRead, .tensor = i};
    WaitUntil([&] { return user_.MayPerform(read); });
    if (!GoesOn()) return;
    user_.Perform(read);
    ActIfStruck();
  }
  WaitUntilIdle();
}

void TraceRun::HealAndReadAll() {
  if (!GoesOn()) return;
  host_->Heal();
  if (registration_) registration_->RepeatHealed();
  for (std::uint32_t i = 0; i < trace_.tensors.size(); ++i) ReadHealed(i);
}

/// Reads the tensor after the faults: it is either read, or lost with an error.
void TraceRun::ReadHealed(std::uint32_t tensor) {
  const auto full = [this]() -> std::uint64_t {
    const auto found = outcome_.op_failures.find(core::TicketFailure::kTierFull);
    return found == outcome_.op_failures.end() ? 0 : found->second;
  };
  for (int i = 0; i < kTriesAfterHealing; ++i) {
    const std::uint64_t before = full();
    user_.Perform({.kind = TraceKind::kRead, .tensor = tensor});
    WaitUntilIdle();
    if (!GoesOn() || full() == before) return;
  }
  verdict_.Fail(fmt::format("tensor {} cannot be read after the fault has gone", tensor));
}

// --- progress ---------------------------------------------------------------------------------

bool TraceRun::Step() {
  if (++steps_ > kStepsMax) {
    verdict_.Fail("events follow each other without an end");
    return false;
  }
  testing::FaultyEngine& engine = host_->engine();
  const std::uint64_t finished_before = pager_->started() - pager_->store_in_flight();
  const std::size_t held = engine.held();
  const bool ran = host_->executor().RunNext(pager_->store_in_flight() > held);
  const std::uint64_t finished = pager_->started() - pager_->store_in_flight();
  if (held > 0 && finished > finished_before) ++outcome_.passed_while_held;
  // A completion that is no longer held is in flight: a thread of the engine delivers it.
  return ran || engine.ReleaseHeld() || held > 0;
}

template <typename Ready>
void TraceRun::WaitUntil(Ready ready) {
  while (GoesOn() && !ready()) {
    if (!Step() && verdict_.ok()) verdict_.Fail("nothing moves, and an op of the trace waits");
    ActIfStruck();
  }
}

void TraceRun::WaitUntilIdle() {
  WaitUntil([&] { return user_.idle() && pager_->core().tasks_in_flight() == 0; });
  if (GoesOn()) pager_->core().CheckInvariants();
}

void TraceRun::ActIfStruck() {
  const bool acts = options_.act == Act::kDestroy || options_.act == Act::kFork;
  if (!acts || acted_ || !GoesOn() || !host_->engine().struck()) return;
  acted_ = true;
  if (options_.act == Act::kDestroy) return Destroy();
  const std::string answer = CallStoreInChild(host_->store(), options_.pager.page_bytes);
  if (!answer.empty()) verdict_.Fail("a forked child: " + answer);
}

void TraceRun::Destroy() {
  if (pager_->store_in_flight() == 0) verdict_.Fail("nothing is in flight when the store closes");
  outcome_.struck = true;
  outcome_.attempts = host_->engine().operations();
  user_.Stop();
  ended_ = true;
}

}  // namespace

RunOutcome RunTrace(const Trace& trace, const RunOptions& options) {
  return TraceRun(trace, options).Run();
}

}  // namespace sluice::faults
