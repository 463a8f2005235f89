#include "runtime/engine/data/memory_tier.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/strings.h"
#include "numa/address_range.h"

namespace sluice::engine {
namespace {

class HostRange : public MappedRange {
 public:
  explicit HostRange(std::unique_ptr<numa::AddressRange> range) : range_(std::move(range)) {}
  std::byte* base() const override { return range_->base(); }
  const numa::AddressRange& range() const { return *range_; }

 private:
  std::unique_ptr<numa::AddressRange> range_;
};

class HostTier : public MemoryTier {
 public:
  HostTier(numa::NodeArenas& arenas, io::PageStore* store, device::Device* device)
      : arenas_(arenas), store_(store), device_(device), frames_(arenas.frame_count()) {
    RegisterNew();
  }
  ~HostTier() override { UnregisterAllBut({}); }

  std::span<std::byte> Frame(core::FrameIndex frame) const override { return arenas_.Frame(frame); }
  void Fill(core::FrameIndex frame, std::uint8_t value, device::DoneFn done) override {
    std::memset(Frame(frame).data(), value, arenas_.page_bytes());
    done(absl::OkStatus());
  }
  std::string unregistered_reason() const override { return unregistered_reason_; }

  absl::StatusOr<std::unique_ptr<MappedRange>> ReserveRange(std::uint64_t bytes) override {
    SLUICE_ASSIGN_OR_RETURN(auto range, numa::AddressRange::Reserve(bytes));
    return std::make_unique<HostRange>(std::move(range));
  }

  absl::Status Map(MappedRange& range, std::uint64_t page, core::FrameIndex frame) override {
    return arenas_.MapAt(frame, range.base() + page * arenas_.page_bytes());
  }

  absl::Status Unmap(MappedRange& range, std::uint64_t page) override {
    const std::uint64_t bytes = arenas_.page_bytes();
    return static_cast<HostRange&>(range).range().Unmap(page * bytes, bytes);
  }

  absl::Status MapForReading(core::FrameIndex frame, std::byte* address) override {
    return arenas_.MapAt(frame, address, numa::MapAccess::kRead);
  }

  bool IsPinned(core::FrameIndex frame) const override {
    const std::span<const std::byte> bytes = Frame(frame);
    const base::MutexLock lock(pinned_mutex_);
    const auto next = pinned_.upper_bound(bytes.data());
    return next != pinned_.begin() && bytes.data() < std::prev(next)->second;
  }

  void KeepMemory() override { keeps_memory_ = device_ != nullptr && !device_->host_accessible(); }
  absl::Status LetMemoryGo() override {
    keeps_memory_ = false;
    if (!kept_until_.has_value()) return absl::OkStatus();
    return ResizeNow(*std::exchange(kept_until_, std::nullopt));
  }
  absl::Status Resize(core::FrameIndex frames) override {
    kept_until_.reset();
    if (!keeps_memory_ || frames >= frames_) return ResizeNow(frames);
    kept_until_ = frames;
    return absl::OkStatus();
  }

  std::uint64_t allocated_bytes() const override { return arenas_.allocated_bytes(); }
  double huge_page_share() const override { return arenas_.huge_page_share(); }

  std::vector<std::vector<int>> Nodes() const override {
    std::vector<std::vector<int>> nodes;
    for (std::size_t i = 0; i < arenas_.arena_count(); ++i) nodes.push_back(arenas_.CpusNear(i));
    return nodes;
  }
  std::uint32_t NodeOf(core::FrameIndex frame) const override {
    return static_cast<std::uint32_t>(arenas_.ArenaOf(frame));
  }

 private:
  using Chunks = std::vector<std::span<std::byte>>;

  absl::Status ResizeNow(core::FrameIndex frames) {
    // Nobody must know memory that goes.
    UnregisterAllBut(arenas_.ChunksOf(frames));
    const auto resized = frames < frames_ ? arenas_.Shrink(frames) : arenas_.Grow(frames);
    frames_ = arenas_.frame_count();  // some arenas may have changed though one failed
    RegisterNew();
    return resized.status();
  }

  static bool Contains(const Chunks& chunks, std::span<const std::byte> one) {
    return std::any_of(chunks.begin(), chunks.end(), [&](std::span<const std::byte> other) {
      return other.data() == one.data() && other.size() == one.size();
    });
  }

  void RegisterNew() {
    for (const auto chunk : arenas_.Chunks()) {
      if (Contains(registered_, chunk)) continue;
      if (store_ != nullptr) store_->RegisterMemory(chunk);
      RegisterWithDevice(chunk);
      registered_.push_back(chunk);
    }
  }
  void RegisterWithDevice(std::span<std::byte> chunk) {
    if (device_ == nullptr) return;
    if (const absl::Status status = device_->RegisterHost(chunk); !status.ok()) {
      unregistered_reason_ = base::ToStd(status.message());
      return;
    }
    on_device_.push_back(chunk);
    if (device_->host_accessible()) return;
    const base::MutexLock lock(pinned_mutex_);
    pinned_.emplace(chunk.data(), chunk.data() + chunk.size());
  }
  void UnregisterAllBut(const Chunks& staying) {
    const auto goes = [&](std::span<std::byte> chunk) { return !Contains(staying, chunk); };
    for (const std::span<std::byte> chunk : registered_) {
      if (goes(chunk) && store_ != nullptr) store_->UnregisterMemory(chunk);
    }
    for (const std::span<std::byte> chunk : on_device_) {
      if (!goes(chunk)) continue;
      {
        const base::MutexLock lock(pinned_mutex_);
        pinned_.erase(chunk.data());
      }
      device_->UnregisterHost(chunk);
    }
    std::erase_if(registered_, goes);
    std::erase_if(on_device_, goes);
  }

  numa::NodeArenas& arenas_;
  io::PageStore* const store_;
  device::Device* const device_;
  Chunks registered_;
  Chunks on_device_;  ///< chunks that the device knows
  std::string unregistered_reason_;
  mutable base::Mutex pinned_mutex_;
  /// Begin and end of each chunk that a GPU knows.
  std::map<const std::byte*, const std::byte*> pinned_ ABSL_GUARDED_BY(pinned_mutex_);
  bool keeps_memory_ = false;
  std::optional<core::FrameIndex> kept_until_;  ///< frames that LetMemoryGo leaves
  core::FrameIndex frames_;
};

class DeviceTierRange : public MappedRange {
 public:
  explicit DeviceTierRange(std::unique_ptr<device::DeviceRange> range) : range_(std::move(range)) {}
  std::byte* base() const override { return range_->base(); }
  device::DeviceRange& range() { return *range_; }

 private:
  std::unique_ptr<device::DeviceRange> range_;
};

class DeviceTier : public MemoryTier {
 public:
  explicit DeviceTier(device::Device& device) : device_(device) {}

  std::span<std::byte> Frame(core::FrameIndex frame) const override { return device_.Frame(frame); }
  bool host_accessible() const override { return device_.host_accessible(); }
  void Fill(core::FrameIndex frame, std::uint8_t value, device::DoneFn done) override {
    device_.Fill(frame, value, std::move(done));
  }

  absl::StatusOr<std::unique_ptr<MappedRange>> ReserveRange(std::uint64_t bytes) override {
    SLUICE_ASSIGN_OR_RETURN(auto range, device_.ReserveRange(bytes));
    return std::make_unique<DeviceTierRange>(std::move(range));
  }

  absl::Status Map(MappedRange& range, std::uint64_t page, core::FrameIndex frame) override {
    return device_.Map(static_cast<DeviceTierRange&>(range).range(), page, frame);
  }

  absl::Status Unmap(MappedRange& range, std::uint64_t page) override {
    return device_.Unmap(static_cast<DeviceTierRange&>(range).range(), page);
  }

  absl::Status MapForReading(core::FrameIndex frame, std::byte* address) override {
    return device_.MapForReading(frame, address);
  }

  absl::Status Resize(core::FrameIndex frames) override { return device_.Resize(frames).status(); }
  std::uint64_t allocated_bytes() const override { return device_.allocated_bytes(); }
  double huge_page_share() const override { return device_.huge_page_share(); }

 private:
  device::Device& device_;
};

}  // namespace

std::unique_ptr<MemoryTier> MakeHostTier(numa::NodeArenas& arenas,
                                         io::PageStore* store,
                                         device::Device* device) {
  return std::make_unique<HostTier>(arenas, store, device);
}

std::unique_ptr<MemoryTier> MakeDeviceTier(device::Device& device) {
  return std::make_unique<DeviceTier>(device);
}

}  // namespace sluice::engine
