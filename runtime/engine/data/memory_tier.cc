#include "runtime/engine/data/memory_tier.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "numa/address_range.h"
#include "runtime/device/host_registrar.h"

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
      : arenas_(arenas), store_(store), frames_(arenas.frame_count()) {
    // Copies of an emulated device are the host's own: all memory is the same to them.
    const bool is_gpu = device != nullptr && !device->host_accessible();
    if (is_gpu) registrar_ = std::make_unique<device::HostRegistrar>(*device);
    RegisterNew();
  }
  ~HostTier() override { UnregisterAllBut({}); }

  std::span<std::byte> Frame(core::FrameIndex frame) const override { return arenas_.Frame(frame); }
  void Fill(core::FrameIndex frame, std::uint8_t value, device::DoneFn done) override {
    std::memset(Frame(frame).data(), value, arenas_.page_bytes());
    done(absl::OkStatus());
  }
  std::string unregistered_reason() const override {
    return registrar_ == nullptr ? "" : registrar_->refusal();
  }
  void OnRefused(std::function<void()> tell) override {
    if (registrar_ != nullptr) registrar_->OnRefused(std::move(tell));
  }
  void WhenSettled(core::FrameIndex frame, absl::AnyInvocable<void()> job) override {
    if (registrar_ == nullptr) return job();
    registrar_->WhenSettled(Frame(frame).data(), std::move(job));
  }

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
    return registrar_ != nullptr && registrar_->IsRegistered(Frame(frame).data());
  }

  void KeepMemory() override { keeps_memory_ = registrar_ != nullptr; }
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
    // Memory that goes is unregistered before: no ring and no GPU may know it then.
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
    const Chunks chunks = arenas_.Chunks();
    for (const auto chunk : chunks) {
      if (Contains(registered_, chunk)) continue;
      if (store_ != nullptr) store_->RegisterMemory(chunk);
      registered_.push_back(chunk);
    }
    if (registrar_ != nullptr) registrar_->Register(chunks);
  }
  void UnregisterAllBut(const Chunks& staying) {
    const auto goes = [&](std::span<std::byte> chunk) { return !Contains(staying, chunk); };
    if (registrar_ != nullptr) registrar_->UnregisterAllBut(staying);
    for (const std::span<std::byte> chunk : registered_) {
      if (goes(chunk) && store_ != nullptr) store_->UnregisterMemory(chunk);
    }
    std::erase_if(registered_, goes);
  }

  numa::NodeArenas& arenas_;
  io::PageStore* const store_;
  std::unique_ptr<device::HostRegistrar> registrar_;  ///< null without a GPU
  Chunks registered_;                                 ///< chunks that the store knows
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
