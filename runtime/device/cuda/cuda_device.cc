#include "runtime/device/cuda/cuda_device.h"

#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "base/status.h"
#include "runtime/device/cuda/cuda_context.h"
#include "runtime/device/cuda/cuda_frames.h"
#include "runtime/device/cuda/cuda_health.h"
#include "runtime/device/cuda/cuda_range.h"
#include "runtime/device/cuda/cuda_stream.h"
#include "runtime/device/cuda/cuda_worker.h"

namespace sluice::device {
namespace {

/// Data loss of a copy out of a dead GPU: the bytes were there alone, or are read elsewhere.
absl::Status LostWith(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return status;
  return absl::DataLossError(status.message());
}

class CudaDevice : public Device {
 public:
  explicit CudaDevice(CudaApi& api) : health_(api) {}
  ~CudaDevice() override {
    worker_.reset();  // completes the copies while the frames are there
    UnregisterAll();
  }

  absl::Status Start(CudaApi& api, const CudaDeviceOptions& options) {
    SLUICE_ASSIGN_OR_RETURN(share_, CudaContextShare::Take(api, health_, options.ordinal));
    SLUICE_ASSIGN_OR_RETURN(frames_,
                            CudaFrames::Create(*share_, options.page_bytes, options.frames));
    SLUICE_ASSIGN_OR_RETURN(worker_, CudaWorker::Start(*share_, {.cpus = options.cpus}));
    return absl::OkStatus();
  }

  std::string_view name() const override { return "cuda"; }
  std::uint32_t frame_count() const override { return frames_->count(); }
  std::uint64_t page_bytes() const override { return frames_->page_bytes(); }
  std::span<std::byte> Frame(std::uint32_t frame) const override { return frames_->Frame(frame); }
  bool host_accessible() const override { return false; }

  absl::StatusOr<std::unique_ptr<DeviceRange>> ReserveRange(std::uint64_t bytes) override {
    return CudaRange::Reserve(*share_, page_bytes(), bytes);
  }
  absl::Status Map(DeviceRange& range, std::uint64_t page, std::uint32_t frame) override {
    SLUICE_CHECK(frame < frame_count(), "a frame that is there is mapped");
    return RangeOf(range, page).Map(page, frames_->memory(frame));
  }
  absl::Status Unmap(DeviceRange& range, std::uint64_t page) override {
    return RangeOf(range, page).Unmap(page);
  }

  void CopyIn(std::span<const std::byte> host,
              std::uint32_t frame,
              StartedFn started,
              DoneFn done) override {
    const CudaCopy copy{.to = Frame(frame).data(), .from = host.data(), .bytes = host.size()};
    worker_->Submit(CudaCopies::Direction::kIn,
                    {.copy = copy, .started = std::move(started), .done = std::move(done)});
  }
  void CopyOut(std::uint32_t frame, std::span<std::byte> host, DoneFn done) override {
    const CudaCopy copy{.to = host.data(), .from = Frame(frame).data(), .bytes = host.size()};
    worker_->Submit(CudaCopies::Direction::kOut,
                    {.copy = copy, .done = [done = std::move(done)](absl::Status status) mutable {
                       done(LostWith(status));
                     }});
  }
  void Fill(std::uint32_t frame, std::uint8_t value, DoneFn done) override {
    const CudaCopy whole{.to = Frame(frame).data(), .bytes = page_bytes()};
    worker_->Submit(CudaCopies::Direction::kIn,
                    {.copy = whole, .fill = value, .done = std::move(done)});
  }

  absl::Status RegisterHost(std::span<std::byte> memory) override {
    const ScopedCudaContext current(*share_);
    SLUICE_RETURN_IF_ERROR(current.status());
    SLUICE_RETURN_IF_ERROR(share_->Check(share_->api().RegisterHost(memory.data(), memory.size()),
                                         "cuMemHostRegister"));
    base::MutexLock lock(registered_mutex_);
    registered_.push_back(memory.data());
    return absl::OkStatus();
  }
  void UnregisterHost(std::span<std::byte> memory) override {
    {
      base::MutexLock lock(registered_mutex_);
      std::erase(registered_, memory.data());
    }
    Unregister(memory.data());
  }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override {
    return MakeCudaStream(*share_, *frames_, *worker_);
  }
  absl::StatusOr<std::unique_ptr<Stream>> AdoptStream(void* stream) override {
    return AdoptCudaStream(*share_, *frames_, *worker_, static_cast<CudaStream>(stream));
  }

  absl::StatusOr<std::uint32_t> Resize(std::uint32_t frames) override {
    base::MutexLock lock(resize_mutex_);
    return frames_->Resize(frames);
  }
  std::uint64_t allocated_bytes() const override { return frame_count() * page_bytes(); }
  double huge_page_share() const override { return 1; }
  absl::Status Health() const override { return health_.status(); }

 private:
  CudaRange& RangeOf(DeviceRange& range, std::uint64_t page) const {
    auto* const own = dynamic_cast<CudaRange*>(&range);
    SLUICE_CHECK(own != nullptr, "a range is mapped by the device that reserved it");
    SLUICE_CHECK(page < range.bytes() / page_bytes(), "the page lies within the range");
    return *own;
  }

  void Unregister(std::byte* memory) {
    const ScopedCudaContext current(*share_);
    if (!current.status().ok()) return;
    share_->Check(share_->api().UnregisterHost(memory), "cuMemHostUnregister").IgnoreError();
  }
  void UnregisterAll() {
    std::vector<std::byte*> all;
    {
      base::MutexLock lock(registered_mutex_);
      all = std::exchange(registered_, {});
    }
    for (std::byte* memory : all) Unregister(memory);
  }

  CudaHealth health_;
  std::unique_ptr<CudaContextShare> share_;
  std::unique_ptr<CudaFrames> frames_;
  base::Mutex resize_mutex_;
  base::Mutex registered_mutex_;
  std::vector<std::byte*> registered_ ABSL_GUARDED_BY(registered_mutex_);
  std::unique_ptr<CudaWorker> worker_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(CudaApi& api,
                                                       const CudaDeviceOptions& options) {
  CudaHealth health(api);
  CudaDeviceFacts facts;
  SLUICE_RETURN_IF_ERROR(
      health.Check(api.DescribeDevice(options.ordinal, &facts), "cuDeviceGetAttribute"));
  if (std::string why = WhyNotUsable(facts, facts.granularity); !why.empty()) {
    return absl::FailedPreconditionError(why);
  }
  if (std::string why = WhyNotUsable(facts, options.page_bytes); !why.empty()) {
    return absl::InvalidArgumentError(why);
  }
  if (options.frames == 0) return absl::InvalidArgumentError("a GPU of 0 pages holds nothing");
  auto device = std::make_unique<CudaDevice>(api);
  SLUICE_RETURN_IF_ERROR(device->Start(api, options));
  return device;
}

}  // namespace sluice::device
