#include "runtime/device/emulated_device.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "base/status.h"
#include "numa/address_range.h"
#include "numa/arena.h"
#include "runtime/device/copy_engine.h"
#include "runtime/device/emulated_stream.h"

namespace sluice::device {
namespace {

class EmulatedRange : public DeviceRange {
 public:
  explicit EmulatedRange(std::unique_ptr<numa::AddressRange> range) : range_(std::move(range)) {}
  std::byte* base() const override { return range_->base(); }
  std::uint64_t bytes() const override { return range_->bytes(); }
  const numa::AddressRange& addresses() const { return *range_; }

 private:
  const std::unique_ptr<numa::AddressRange> range_;
};

class EmulatedDeviceImpl : public EmulatedDevice {
 public:
  EmulatedDeviceImpl(const EmulatedHbmOptions& options, std::unique_ptr<numa::Arena> arena)
      : cpus_(options.cpus), arena_(std::move(arena)) {
    SetRates(options.rates);
  }

  absl::Status Start() {
    SLUICE_RETURN_IF_ERROR(in_.Start({.thread_name = "sluice-copy-in", .cpus = cpus_}));
    return out_.Start({.thread_name = "sluice-copy-out", .cpus = cpus_});
  }

  std::string_view name() const override { return "emulated"; }
  std::uint32_t frame_count() const override { return arena_->frame_count(); }
  std::uint64_t page_bytes() const override { return arena_->page_bytes(); }
  std::span<std::byte> Frame(std::uint32_t frame) const override { return arena_->Frame(frame); }

  bool host_accessible() const override { return true; }

  absl::StatusOr<std::unique_ptr<DeviceRange>> ReserveRange(std::uint64_t bytes) override {
    SLUICE_ASSIGN_OR_RETURN(auto range, numa::AddressRange::Reserve(bytes));
    return std::make_unique<EmulatedRange>(std::move(range));
  }
  absl::Status Map(DeviceRange& range, std::uint64_t page, std::uint32_t frame) override {
    return arena_->MapAt(frame, AddressesOf(range, page).base() + page * page_bytes());
  }
  absl::Status Unmap(DeviceRange& range, std::uint64_t page) override {
    return AddressesOf(range, page).Unmap(page * page_bytes(), page_bytes());
  }

  absl::Status MapForReading(std::uint32_t frame, std::byte* address) override {
    return arena_->MapAt(frame, address, numa::MapAccess::kRead);
  }

  void CopyIn(std::span<const std::byte> host,
              std::uint32_t frame,
              StartedFn /*started*/,
              DoneFn done) override {
    in_.Submit(host, Frame(frame), std::move(done));
  }
  void CopyOut(std::uint32_t frame, std::span<std::byte> host, DoneFn done) override {
    out_.Submit(Frame(frame), host, std::move(done));
  }
  void Fill(std::uint32_t frame, std::uint8_t value, DoneFn done) override {
    std::memset(Frame(frame).data(), value, page_bytes());
    done(absl::OkStatus());
  }
  // The device's copies are the host's own: all memory is the same to them.
  absl::Status RegisterHost(std::span<std::byte>) override { return absl::OkStatus(); }
  void UnregisterHost(std::span<std::byte>) override {}

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override {
    return MakeEmulatedStream(cpus_);
  }
  absl::StatusOr<std::unique_ptr<Stream>> AdoptStream(void*) override {
    return absl::InvalidArgumentError("the emulated device has no streams but those made by it");
  }

  absl::StatusOr<std::uint32_t> Resize(std::uint32_t frames) override {
    base::MutexLock lock(resize_mutex_);
    return frames < frame_count() ? arena_->Shrink(frames) : arena_->Grow(frames);
  }
  std::uint64_t allocated_bytes() const override { return arena_->allocated_bytes(); }
  double huge_page_share() const override { return arena_->huge_page_share(); }
  const numa::ArenaInfo& arena_info() const override { return arena_->info(); }

  void SetRates(const EmulatedRates& rates) override {
    in_.SetRate(rates.in_bytes_per_second, rates.latency_seconds);
    out_.SetRate(rates.out_bytes_per_second, rates.latency_seconds);
  }

 private:
  const numa::AddressRange& AddressesOf(DeviceRange& range, std::uint64_t page) const {
    const auto* emulated = dynamic_cast<const EmulatedRange*>(&range);
    SLUICE_CHECK(emulated != nullptr, "a range is mapped by the device that reserved it");
    SLUICE_CHECK(page < range.bytes() / page_bytes(), "the page lies within the range");
    return emulated->addresses();
  }

  const std::vector<int> cpus_;
  base::Mutex resize_mutex_;
  const std::unique_ptr<numa::Arena> arena_;
  // Last, so that they drain while the frames are still there.
  CopyEngine in_;
  CopyEngine out_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EmulatedDevice>> EmulatedDevice::Create(
    const EmulatedHbmOptions& options) {
  const EmulatedRates& rates = options.rates;
  if (!(rates.in_bytes_per_second >= 0 && rates.out_bytes_per_second >= 0 &&
        rates.latency_seconds >= 0)) {
    return absl::InvalidArgumentError("the emulated device's rates and latency are not negative");
  }
  SLUICE_ASSIGN_OR_RETURN(auto arena,
                          numa::Arena::Create({.name = "hbm",
                                               .page_bytes = options.page_bytes,
                                               .frames = options.frames,
                                               .node = options.node,
                                               .touch_cpus = options.cpus,
                                               .huge_pages = options.huge_pages}));
  auto device = std::make_unique<EmulatedDeviceImpl>(options, std::move(arena));
  SLUICE_RETURN_IF_ERROR(device->Start());
  return device;
}

}  // namespace sluice::device
