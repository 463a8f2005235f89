// Reports of a Runtime while it runs: events that want an answer, lines for a log, spans for a
// timeline, counters. Here io_uring is switched off, and one op waits for the lease of another.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

/// Events come from one internal thread, and must not call the Runtime.
struct Alarms : sluice::EventListener {
  void OnFallback(const sluice::FallbackEvent& event) override {
    std::printf("%s in place of %s\n", event.chosen.c_str(), event.what.c_str());
  }
  void OnPageLost(const sluice::PageLostEvent& event) override {
    std::printf("a page of %s is lost: %s\n", event.tensor.c_str(), event.cause.ToString().c_str());
  }
  void OnTierFenced(const sluice::TierFencedEvent& event) override {
    std::printf("nvme takes no pages: %s\n", event.cause.ToString().c_str());
  }
  void OnTransferStalled(const sluice::TransferStalledEvent& event) override {
    std::printf("a page of %s moves for %.0f s\n", event.tensor.c_str(), event.seconds);
  }
  void OnLeaseStalled(const sluice::LeaseStalledEvent& event) override {
    std::printf("%s waits for %s, which has held a lease of %s for %.2f s\n",
                event.op.c_str(),
                event.held_by.c_str(),
                event.held_tensor.c_str(),
                event.held_seconds);
    ++stalls;
    stalls.notify_all();
  }
  std::atomic<int> stalls = 0;
};

/// Spans come from several threads at once.
struct Timeline {
  void Add(const sluice::TraceSpan& span) {
    const std::lock_guard lock(mutex);
    seconds[span.track] += std::chrono::duration<double>(span.end - span.begin).count();
  }
  std::mutex mutex;
  std::map<std::string, double> seconds;  // sum per track
};

}  // namespace

int main() {
  Alarms alarms;  // alarms and timeline outlive the Runtime
  Timeline timeline;
  sluice::RuntimeOptions options;
  options.page_bytes = 64_KiB;
  options.dram_bytes = 2_MiB;
  options.nvme_bytes = 16_MiB;
  options.io.io_uring = sluice::Use::kOff;
  options.stall_seconds = 0.05;
  options.listener = &alarms;
  options.trace = [&timeline](const sluice::TraceSpan& span) { timeline.Add(span); };
  options.log = [](sluice::LogLevel level, std::string_view line) {
    const char* name = level == sluice::LogLevel::kInfo ? "info" : "warning";
    std::printf("%s: %.*s\n", name, static_cast<int>(line.size()), line.data());
  };
  const auto runtime = Check(sluice::Runtime::Create(options));
  const sluice::TensorId tensor = Check(runtime->CreateTensor({.name = "t", .shape = {1 << 21}}));
  Check(runtime->Write(tensor, std::vector<std::byte>(8 << 20)));

  sluice::Op holder = runtime->BeginOp({.name = "holder", .lane = "a"});
  sluice::Lease lease = Check(holder.Acquire({.tensor = tensor, .range = {0, 4096}}));
  sluice::Op waiter = runtime->BeginOp({.name = "waiter", .lane = "b"});
  sluice::Ticket ticket = waiter.AcquireAll(
      {{.tensor = tensor, .range = {0, 4096}, .mode = sluice::AccessMode::kReadWrite}});
  alarms.stalls.wait(0);  // OnLeaseStalled ends the wait
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
  const bool late = absl::IsDeadlineExceeded(ticket.Wait(soon));  // the ticket lives on
  lease.Release();                                                // the op goes on without it
  const bool released = !lease.valid();
  holder.End();
  const auto begin = std::chrono::steady_clock::now();
  Check(ticket.Take());
  // An interval of the program's own, beside those of the Runtime.
  runtime->Trace()({"program", "take", begin, std::chrono::steady_clock::now()});

  const sluice::Stats stats = runtime->GetStats();
  const sluice::HealthReport health = runtime->Health();
  for (const std::string& reason : health.reasons) std::printf("%s\n", reason.c_str());
  const std::lock_guard lock(timeline.mutex);
  std::printf("waited %.2f s for pages and %.2f s for frames; %.2f s of writes on %ju MiB\n",
              ticket.waited().read_seconds,
              ticket.waited().write_seconds,
              timeline.seconds["dram-nvme out"],
              std::uintmax_t{stats.links.at("dram-nvme").out.bytes >> 20});
  const bool well = health.state != sluice::HealthState::kDead && stats.pages_lost == 0;
  return late && released && well && stats.fallbacks.size() > 0 &&
                 timeline.seconds.contains("program")
             ? 0
             : 1;
}
