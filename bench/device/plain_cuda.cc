#include "bench/device/plain_cuda.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "absl/memory/memory.h"
#include "base/status.h"

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;
using device::CudaCopy;

/// Bytes of a batch, or one page. With three batches of 16 MiB the link of a GPU is never without
/// work (docs/results/h200.md).
constexpr std::uint64_t kBatchBytes = std::uint64_t{16} << 20;
constexpr std::size_t kBatches = 3;

}  // namespace

/// Copies of one direction, on a stream of their own.
class PlainCuda::Flow {
 public:
  Flow(const device::CudaContextShare& share, bool in, std::vector<CudaCopy> pages)
      : share_(share), in_(in), pages_(std::move(pages)) {}

  // Results are ignored: an error of the work was reported when it was waited for.
  ~Flow() {
    if (stream_ != nullptr) share_.api().SynchronizeStream(stream_);
    for (device::CudaEvent end : ends_) {
      if (end != nullptr) share_.api().DestroyEvent(end);
    }
    if (stream_ != nullptr) share_.api().DestroyStream(stream_);
  }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  absl::Status Prepare() {
    SLUICE_RETURN_IF_ERROR(share_.Check(share_.api().CreateStream(&stream_), "cuStreamCreate"));
    for (device::CudaEvent& end : ends_) {
      SLUICE_RETURN_IF_ERROR(share_.Check(share_.api().CreateEvent(&end), "cuEventCreate"));
    }
    return absl::OkStatus();
  }

  /// Enqueues `pages` pages, after those before.
  absl::Status Enqueue(std::size_t pages) {
    std::vector<CudaCopy> batch;
    for (std::size_t i = 0; i < pages; ++i) batch.push_back(pages_[next_++ % pages_.size()]);
    SLUICE_RETURN_IF_ERROR(Copy(batch));
    for (const CudaCopy& copy : batch) bytes_ += copy.bytes;
    device::CudaEvent end = ends_[enqueued_++ % kBatches];
    return share_.Check(share_.api().RecordEvent(end, stream_), "cuEventRecord");
  }

  /// Takes note of batches that have ended.
  absl::Status Look() {
    while (ended_ < enqueued_) {
      const device::CudaCode code = share_.api().QueryEvent(ends_[ended_ % kBatches]);
      if (code == device::kCudaNotReady) break;
      SLUICE_RETURN_IF_ERROR(share_.Check(code, "cuEventQuery"));
      ++ended_;
    }
    return absl::OkStatus();
  }

  bool HasRoom() const { return enqueued_ - ended_ < kBatches; }
  bool idle() const { return enqueued_ == ended_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  absl::Status Copy(const std::vector<CudaCopy>& batch) {
    // The device, too, makes no batch of one copy.
    const device::CudaCode code =
        batch.size() == 1 ? device::kCudaNotSupported : share_.api().CopyBatch(batch, stream_);
    if (code != device::kCudaNotSupported) return share_.Check(code, "cuMemcpyBatchAsync");
    for (const CudaCopy& copy : batch) {
      SLUICE_RETURN_IF_ERROR(
          in_ ? share_.Check(share_.api().CopyIn(copy, stream_), "cuMemcpyHtoD")
              : share_.Check(share_.api().CopyOut(copy, stream_), "cuMemcpyDtoH"));
    }
    return absl::OkStatus();
  }

  const device::CudaContextShare& share_;
  const bool in_;
  const std::vector<CudaCopy> pages_;
  device::CudaStream stream_ = nullptr;
  std::array<device::CudaEvent, kBatches> ends_{};
  std::size_t next_ = 0;
  std::uint64_t enqueued_ = 0;  ///< number of batches, as `ended_`
  std::uint64_t ended_ = 0;
  std::uint64_t bytes_ = 0;  ///< bytes of all batches that were enqueued
};

PlainCuda::PlainCuda(device::CudaApi& api, const Options& options)
    : api_(api), health_(api), options_(options) {}

absl::StatusOr<std::unique_ptr<PlainCuda>> PlainCuda::Create(device::CudaApi& api,
                                                             const Options& options) {
  auto plain = absl::WrapUnique(new PlainCuda(api, options));
  SLUICE_ASSIGN_OR_RETURN(plain->share_,
                          device::CudaContextShare::Take(api, plain->health_, options.ordinal));
  SLUICE_RETURN_IF_ERROR(plain->Prepare());
  return plain;
}

absl::Status PlainCuda::Prepare() {
  const device::ScopedCudaContext context(*share_);
  SLUICE_RETURN_IF_ERROR(context.status());
  SLUICE_RETURN_IF_ERROR(share_->Check(
      api_.RegisterHost(options_.host.data(), options_.host.size()), "cuMemHostRegister"));
  registered_ = true;
  const std::uint64_t half = half_bytes();
  SLUICE_RETURN_IF_ERROR(
      share_->Check(api_.ReserveAddresses(2 * half, &address_), "cuMemAddressReserve"));
  for (Half& one : halves_) SLUICE_RETURN_IF_ERROR(MakeHalf(one));
  std::vector<CudaCopy> in;
  std::vector<CudaCopy> out;
  for (std::uint64_t at = 0; at < half; at += options_.page_bytes) {
    std::byte* const host = options_.host.data() + at;
    in.push_back({AddressOf(halves_[0]) + at, host, options_.page_bytes});
    out.push_back({host + half, AddressOf(halves_[1]) + at, options_.page_bytes});
  }
  in_ = std::make_unique<Flow>(*share_, /*in=*/true, std::move(in));
  SLUICE_RETURN_IF_ERROR(in_->Prepare());
  out_ = std::make_unique<Flow>(*share_, /*in=*/false, std::move(out));
  return out_->Prepare();
}

/// Gives the addresses of a half their memory.
absl::Status PlainCuda::MakeHalf(Half& half) {
  const std::uint64_t bytes = half_bytes();
  SLUICE_RETURN_IF_ERROR(
      share_->Check(api_.CreateMemory(options_.ordinal, bytes, &half.memory), "cuMemCreate"));
  std::byte* const address = AddressOf(half);
  SLUICE_RETURN_IF_ERROR(share_->Check(api_.MapMemory(address, bytes, half.memory), "cuMemMap"));
  half.mapped = true;
  return share_->Check(api_.AllowAccess(address, bytes, options_.ordinal), "cuMemSetAccess");
}

// Results are ignored: nothing can be done about memory that the driver does not take back.
PlainCuda::~PlainCuda() {
  if (share_ == nullptr) return;
  const device::ScopedCudaContext context(*share_);
  in_.reset();
  out_.reset();
  for (const Half& half : halves_) {
    if (half.mapped) api_.UnmapMemory(AddressOf(half), half_bytes());
    if (half.memory != 0) api_.ReleaseMemory(half.memory);
  }
  if (address_ != nullptr) api_.FreeAddresses(address_, 2 * half_bytes());
  if (registered_) api_.UnregisterHost(options_.host.data());
}

absl::StatusOr<double> PlainCuda::Run(std::span<Flow* const> flows, std::uint32_t milliseconds) {
  const auto pages =
      static_cast<std::size_t>(std::max<std::uint64_t>(1, kBatchBytes / options_.page_bytes));
  std::uint64_t before = 0;
  for (const Flow* flow : flows) before += flow->bytes();
  const Clock::time_point start = Clock::now();
  const Clock::time_point deadline = start + std::chrono::milliseconds(milliseconds);
  bool idle = false;
  while (!idle) {
    const bool more = Clock::now() < deadline;
    idle = !more;
    for (Flow* flow : flows) {
      SLUICE_RETURN_IF_ERROR(flow->Look());
      if (more && flow->HasRoom()) SLUICE_RETURN_IF_ERROR(flow->Enqueue(pages));
      idle = idle && flow->idle();
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::uint64_t bytes = 0;
  for (const Flow* flow : flows) bytes += flow->bytes();
  return static_cast<double>(bytes - before) / seconds;
}

absl::StatusOr<device::CopyRates> PlainCuda::Rates(std::uint32_t milliseconds) {
  const device::ScopedCudaContext context(*share_);
  SLUICE_RETURN_IF_ERROR(context.status());
  device::CopyRates rates;
  const std::array<Flow*, 2> flows = {in_.get(), out_.get()};
  const std::span<Flow* const> both = flows;
  SLUICE_ASSIGN_OR_RETURN(rates.in, Run(both.first(1), milliseconds));
  SLUICE_ASSIGN_OR_RETURN(rates.out, Run(both.last(1), milliseconds));
  SLUICE_ASSIGN_OR_RETURN(rates.both, Run(both, milliseconds));
  return rates;
}

absl::StatusOr<double> PlainCuda::SecondsOfOneCopyIn() {
  const device::ScopedCudaContext context(*share_);
  SLUICE_RETURN_IF_ERROR(context.status());
  const Clock::time_point start = Clock::now();
  SLUICE_RETURN_IF_ERROR(in_->Enqueue(1));
  while (!in_->idle()) SLUICE_RETURN_IF_ERROR(in_->Look());
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace sluice::bench
