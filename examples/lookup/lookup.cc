// Rows of a table of 64 MiB under 8 MiB of dram, which no schedule foretells: each batch knows the
// rows of the next one, and asks for them ahead. Two threads run at once, each in a lane of its
// own.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

constexpr std::uint64_t kRows = 4096, kColumns = 4096, kRowBytes = kColumns * sizeof(float);
constexpr int kBatches = 50, kBatchRows = 16;

/// The rows of one batch.
std::vector<sluice::Access> Draw(sluice::TensorId table, std::mt19937_64& random) {
  std::vector<sluice::Access> batch(kBatchRows);
  for (sluice::Access& access : batch) {
    access = {.tensor = table, .range = {random() % kRows * kRowBytes, kRowBytes}};
  }
  return batch;
}

/// Asks for rows that turn out not to be needed. Returns whether the request was given up.
bool Speculate(sluice::Runtime& runtime, sluice::TensorId table) {
  std::mt19937_64 random(3);
  sluice::Op op = runtime.BeginOp({.name = "speculation", .lane = "speculation"});
  sluice::Ticket ticket = op.AcquireAll(Draw(table, random));  // returns at once
  const bool in_place = ticket.Ready();                        // Take would not block
  ticket.Cancel();
  std::printf("gave up rows that were %s\n", in_place ? "in place" : "on their way");
  return absl::IsCancelled(ticket.Take().status());
}

/// Reads many batches. Returns the number of wrong values.
std::uint64_t Read(sluice::Runtime& runtime, sluice::TensorId table, int reader) {
  const std::string lane = "reader " + std::to_string(reader);
  std::mt19937_64 random(static_cast<std::uint64_t>(reader));
  std::uint64_t wrong = 0;
  std::vector<sluice::Access> batch = Draw(table, random);
  for (int i = 0; i < kBatches; ++i) {
    std::vector<sluice::Access> next = Draw(table, random);
    Check(runtime.Prefetch(next));  // a hint: it waits for no page, and no schedule records it
    sluice::Op op = runtime.BeginOp({.name = "batch", .lane = lane});
    const std::vector<sluice::Lease> rows = Check(op.AcquireAll(batch).Take());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto expected = static_cast<float>(batch[row].range.offset / kRowBytes);
      for (const float value : rows[row].As<float>()) wrong += value != expected;
    }
    batch = std::move(next);
  }
  return wrong;
}

}  // namespace

int main() {
  sluice::RuntimeOptions options;
  options.page_bytes = sluice::Bytes(kRowBytes);
  options.dram_bytes = 8_MiB;
  options.nvme_bytes = 72_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  const sluice::TensorId table =
      Check(runtime->CreateTensor({.name = "table", .shape = {kRows, kColumns}}));
  for (std::uint64_t row = 0; row < kRows; ++row) {
    const std::vector<float> values(kColumns, static_cast<float>(row));
    Check(runtime->Write(table, std::as_bytes(std::span(values)), row * kRowBytes));
  }
  std::atomic<std::uint64_t> wrong = 0;
  std::thread other([&] { wrong += Read(*runtime, table, 2); });
  wrong += Read(*runtime, table, 1);
  other.join();
  const bool cancelled = Speculate(*runtime, table);
  const sluice::Stats stats = runtime->GetStats();
  std::printf("%ju of %ju hinted rows were there in time; waited %.3f s; %ju values are wrong\n",
              std::uintmax_t{stats.prefetch.hit},
              std::uintmax_t{stats.prefetch.issued},
              stats.stall_seconds,
              std::uintmax_t{wrong});
  return cancelled && wrong == 0 && stats.prefetch.issued > 0 ? 0 : 1;
}
