#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/timer.h"
#include "base/worker_pool.h"
#include "io/engine/io_engine.h"
#include "io/engine/transfer.h"
#include "io/file/spill_files.h"
#include "io/store/admission.h"
#include "io/store/page_store.h"
#include "io/store/rate_meter.h"
#include "io/store/slot_table.h"
#include "io/store/write_back_line.h"

namespace sluice::io {

struct StoreCounters {
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> checksum_failures{0};
  TransferCounters transfer;
};

/// State that the operations of one store share. Threads: any.
struct StoreContext {
  WriteBackLine& WriteBacksOf(const IoFile& file) {
    return write_backs[static_cast<std::size_t>(&file - files.files().data())];
  }

  IoEngine& engine;
  const SpillFiles& files;
  base::WorkerPool& workers;
  const std::uint64_t page_bytes;
  const base::Backoff backoff;
  const bool marks_errors;
  base::Timer& timer;                      ///< timer of the pauses between attempts
  std::vector<WriteBackLine> write_backs;  ///< one per file
  SlotTable slots;
  Admission admission;
  StoreCounters counters{};
  SharedRateMeter meter{};
};

struct PageAddress {
  SlotIndex slot;
  SlotIndex place;
  PageIdentity identity;
};

/// Write, hash on a worker meanwhile, record the checksum once both are done, `done`. REQUIRES:
/// BeginWrite and Enter succeeded.
void StartWrite(StoreContext& context,
                const PageAddress& address,
                std::span<const std::byte> data,
                DoneFn done);

/// Read, verify on a worker against `checksum` (once more on mismatch), `done`.
/// REQUIRES: BeginRead and Enter succeeded.
void StartRead(StoreContext& context,
               const PageAddress& address,
               std::uint64_t checksum,
               std::span<std::byte> data,
               DoneFn done);

/// Ends an operation with `status`, whose marks are taken off unless the store's user wants them.
void CallDone(const StoreContext& context, absl::Status status, DoneFn done);

/// Runs `job` on a worker: at once when the calling thread is one, which must not wait for itself.
void RunOnWorker(StoreContext& context, base::WorkerPool::Job job);

}  // namespace sluice::io
