#include "tests/support/store/every_slot.h"

#include <algorithm>
#include <future>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/worker_pool.h"
#include "fmt/format.h"
#include "tests/support/store/page_buffer.h"

namespace sluice::testing {
namespace {

constexpr std::uint64_t kSlotOrderSeed = 20;

absl::Status WaitForDone(const std::function<void(io::DoneFn)>& start) {
  auto done = std::make_shared<std::promise<absl::Status>>();
  start([done](absl::Status status) { done->set_value(std::move(status)); });
  return done->get_future().get();
}

}  // namespace

std::string UseEverySlot(io::PageStore& store,
                         const io::PageStoreOptions& options,
                         std::uint64_t generation) {
  std::vector<io::SlotIndex> order(options.slots);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(kSlotOrderSeed + generation);
  std::shuffle(order.begin(), order.end(), random);
  PageBuffer page(options.page_bytes);
  for (const io::SlotIndex slot : order) {
    page.Fill(slot + generation * options.slots);
    const absl::Status wrote = WaitForDone([&](io::DoneFn done) {
      store.Write(slot, {1, slot, generation}, page.span(), std::move(done));
    });
    if (!wrote.ok()) return fmt::format("write of slot {}: {}", slot, wrote.ToString());
  }
  for (const io::SlotIndex slot : order) {
    const absl::Status read = WaitForDone([&](io::DoneFn done) {
      store.Read(slot, {1, slot, generation}, page.span(), std::move(done));
    });
    if (!read.ok()) return fmt::format("read of slot {}: {}", slot, read.ToString());
    if (!page.Holds(slot + generation * options.slots)) {
      return fmt::format("slot {}: wrong bytes (seed {})", slot, kSlotOrderSeed + generation);
    }
  }
  return {};
}

std::string UseANewStore(const io::PageStoreOptions& options) {
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  const auto store = io::PageStore::Create(options, workers);
  return store.ok() ? UseEverySlot(**store, options, 1) : store.status().ToString();
}

void UseAStoreForEver(const io::PageStoreOptions& options, const std::function<void()>& begun) {
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  const auto store = io::PageStore::Create(options, workers);
  if (!store.ok() || !UseEverySlot(**store, options, 1).empty()) return;
  begun();
  std::uint64_t generation = 2;
  while (UseEverySlot(**store, options, generation).empty()) ++generation;
}

}  // namespace sluice::testing
