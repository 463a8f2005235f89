#include "runtime/engine/api/runtime_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"
#include "runtime/engine/setup/option_limits.h"

namespace sluice::internal {
namespace {

core::ScheduleLimits LimitsOf(const RuntimeOptions& options) {
  return {options.schedules_max, options.recorded_accesses_max};
}

std::uint32_t CopiesInFlightMax(const engine::TierSet& tiers, std::uint32_t queue_depth) {
  if (tiers.store() == nullptr) return core::CoreOptions().copies_in_flight_max;
  return engine::StoreCopiesMax(queue_depth, tiers.tier(tiers.size() - 1).frames);
}

/// Half of the pages that the drives may have under way. While these come, others are asked for.
std::uint32_t PagesUnderWay(const RuntimeOptions& options) {
  const std::uint64_t pages = options.io.bytes_in_flight.count() / options.page_bytes.count();
  const std::uint64_t most = std::min<std::uint64_t>(pages, options.io.queue_depth);
  const std::uint64_t drives = 1 + options.io.more_directories.size();
  return static_cast<std::uint32_t>(drives * std::max<std::uint64_t>(1, most / 2));
}

std::vector<core::FrameIndex> BudgetsOf(const core::CoreOptions& options) {
  std::vector<core::FrameIndex> frames;
  for (const core::TierConfig& tier : options.tiers) frames.push_back(tier.frames);
  return frames;
}

/// Name of the program's own policy; empty: the policy is a built-in one.
std::string CustomPolicyOf(const RuntimeOptions& options) {
  return options.custom_policies.contains(options.policy) ? options.policy : std::string();
}

/// No fallback: pages move the same way, for a little more of the processors.
void TellOfUnregistered(const io::PageStore* store, engine::Logger& logger) {
  if (store == nullptr) return;
  const io::PageStoreStats stats = store->stats();
  if (stats.engine != "io_uring" || stats.registered_reason.empty()) return;
  logger.Warning(
      fmt::format("io_uring knows {} of the memory of dram in advance, the rest is pinned at each "
                  "request: {}",
                  ToString(Bytes(stats.registered_bytes)),
                  stats.registered_reason));
}

}  // namespace

RuntimeState::RuntimeState(RuntimeOptions options)
    : options_(std::move(options)),
      logger_(options_.log),
      op_names_(options_.recorded_accesses_max),
      keys_(options_.schedules_max),
      recorder_(options_.page_bytes.count(), LimitsOf(options_)),
      table_(options_.page_bytes.count()),
      mailbox_(std::make_shared<engine::Mailbox>(options_.request_queue_capacity)),
      waits_(std::make_shared<engine::WaitMeter>(options_.trace)),
      stream_count_(std::make_shared<engine::StreamCount>()) {}

RuntimeState::~RuntimeState() {
  SLUICE_CHECK(core_thread_ == nullptr, "a runtime is shut down before it goes away");
}

absl::StatusOr<std::shared_ptr<RuntimeState>> RuntimeState::Create(
    RuntimeOptions options, const engine::BackendHooks& hooks) {
  if (options.page_bytes == Bytes()) options.page_bytes = engine::DefaultPageBytes(options);
  SLUICE_RETURN_IF_ERROR(engine::CountFrames(options).status());
  engine::DivideCounts(&options);
  std::shared_ptr<RuntimeState> state(new RuntimeState(std::move(options)), engine::OwnerDelete());
  if (absl::Status set_up = state->SetUp(hooks); !set_up.ok()) {
    state->core_thread_.reset();  // the core thread never ran
    return set_up;
  }
  return state;
}

core::CoreOptions RuntimeState::MakeCoreOptions() const {
  core::CoreOptions core;
  core.copies_in_flight_max = CopiesInFlightMax(*tiers_, options_.io.queue_depth);
  for (core::TierIndex tier = 0; tier < tiers_->size(); ++tier) {
    const engine::Tier& one = tiers_->tier(tier);
    core.tiers.push_back(
        {.frames = one.frames, .keeps_mappings = one.left_mapping == engine::LeftMapping::kStays});
  }
  core.capacity_from = *tiers_->IndexOf(kDram0);  // hbm does not count
  core.prefetch_ops = options_.prefetch_ops;
  core.schedules = LimitsOf(options_);
  return core;
}

absl::Status RuntimeState::StartPlanner() {
  planner_ = std::make_unique<engine::BackgroundPlanner>(
      engine::BackgroundPlanner::Parts{.meters = &meters_,
                                       .links = std::size_t{tiers_->size()} - 1,
                                       .page_bytes = tiers_->page_bytes(),
                                       .pages_under_way = PagesUnderWay(options_),
                                       .mailbox = mailbox_.get(),
                                       .steps_max = options_.recorded_accesses_max});
  return planner_->Start(options_.cpus);
}

absl::Status RuntimeState::SetUp(const engine::BackendHooks& hooks) {
  // The policy is checked first, so that a bad one touches no memory.
  SLUICE_ASSIGN_OR_RETURN(
      auto policy, core::CreatePolicy(options_.policy, {.custom = &options_.custom_policies}));
  engine::BackendHooks told = hooks;
  told.on_drive_fenced = [mailbox = mailbox_](io::FencedDrive drive) {
    mailbox->Post(engine::DriveFencedNotice{std::move(drive)});
  };
  SLUICE_ASSIGN_OR_RETURN(backends_, engine::Backends::Create(options_, told));
  tiers_ = &backends_->tiers();
  core::CoreOptions core_options = MakeCoreOptions();
  core_options.policy = std::move(policy);
  SLUICE_ASSIGN_OR_RETURN(auto core, core::Core::Create(core_options));
  for (const FallbackEvent& event : backends_->fallbacks()) health_.NoteFallback(event);
  health_.Watch(backends_->device());
  TellOfUnregistered(tiers_->store(), logger_);
  if (core_options.policy->planned()) SLUICE_RETURN_IF_ERROR(StartPlanner());
  event_log_ = std::make_unique<engine::EventLog>(core_options, hooks.record_events);
  const core::TierIndex dram = *tiers_->IndexOf(kDram0);
  mapper_ = std::make_unique<engine::SerialExecutor>();
  SLUICE_RETURN_IF_ERROR(mapper_->Start("sluice-mapper", options_.cpus));
  mover_ = std::make_unique<engine::DataMover>(
      engine::DataMover::Parts{.tiers = tiers_,
                               .mapper = mapper_.get(),
                               .workers = &backends_->workers(),
                               .mailbox = mailbox_.get(),
                               .meters = &meters_,
                               .logger = &logger_,
                               .trace = options_.trace,
                               .cpus = options_.cpus,
                               .find_newest = [core = core.get(), dram](PageIndex page) {
                                 return core->FindNewest(page, dram);
                               }});
  core_thread_ = std::make_unique<engine::CoreThread>(
      engine::CoreThread::Parts{.core = std::move(core),
                                .mailbox = mailbox_.get(),
                                .table = &table_,
                                .tiers = tiers_,
                                .mover = mover_.get(),
                                .logger = &logger_,
                                .health = &health_,
                                .listener = options_.listener,
                                .log = event_log_.get(),
                                .planner = planner_.get(),
                                .custom_policy = CustomPolicyOf(options_),
                                .stall_seconds = options_.stall_seconds,
                                .cpus = options_.cpus,
                                .fallbacks = backends_->fallbacks()});
  budgets_ = std::make_unique<engine::TierBudgets>(
      engine::TierBudgets::Parts{.backends = backends_.get(),
                                 .mover = mover_.get(),
                                 .mailbox = mailbox_.get(),
                                 .health = &health_,
                                 .core_thread = core_thread_.get()},
      BudgetsOf(core_options));
  SLUICE_RETURN_IF_ERROR(core_thread_->Start());
  tiers_->memory(dram)->OnRefused([this, dram] { budgets_->AnnounceFallbacks(dram); });
  return absl::OkStatus();
}

void RuntimeState::Shutdown() {
  std::vector<std::weak_ptr<StreamState>> streams;
  {
    base::MutexLock lock(streams_mutex_);
    streams.swap(streams_);
  }
  for (const auto& weak : streams) {
    if (const auto stream = weak.lock()) stream->Close();
  }
  stream_count_->WaitForNone();  // streams that were let go and have work left
  table_.Close();
  for (engine::AcquireRequest& request : mailbox_->CloseRequests()) {
    request.ticket->Fail(ShutDownError());
  }
  tiers_->memory(*tiers_->IndexOf(kDram0))->OnRefused({});
  mailbox_->Post(engine::StopNotice{});
  core_thread_->Join();  // no task is in flight any more
  planner_.reset();      // a plan that is being made is given up
  mapper_.reset();       // mappings that were on their way are made or unmade
  core_thread_.reset();
  health_.Watch(nullptr);
  mover_.reset();  // the last segments and their addresses go with these two
  backends_.reset();
  waits_->CloseSink();  // threads that waited for tickets may still be on their way out
  health_.NoteDead("the runtime has shut down");
}

}  // namespace sluice::internal
