#include "runtime/engine/data/memory_tier.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"
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
  HostTier(numa::NodeArenas& arenas, io::PageStore* store)
      : arenas_(arenas), store_(store), frames_(arenas.frame_count()) {
    RegisterNew();
  }
  ~HostTier() override { UnregisterAllBut({}); }

  std::span<std::byte> Frame(core::FrameIndex frame) const override { return arenas_.Frame(frame); }

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

  bool host_readable() const override { return true; }
  absl::Status MapForReading(core::FrameIndex frame, std::byte* address) override {
    return arenas_.MapAt(frame, address, numa::MapAccess::kRead);
  }

  absl::Status Resize(core::FrameIndex frames) override {
    // The store must not know memory that goes.
    UnregisterAllBut(arenas_.ChunksOf(frames));
    const auto resized = frames < frames_ ? arenas_.Shrink(frames) : arenas_.Grow(frames);
    frames_ = arenas_.frame_count();  // some arenas may have changed though one failed
    RegisterNew();
    return resized.status();
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

  static bool Contains(const Chunks& chunks, std::span<const std::byte> one) {
    return std::any_of(chunks.begin(), chunks.end(), [&](std::span<const std::byte> other) {
      return other.data() == one.data() && other.size() == one.size();
    });
  }

  void RegisterNew() {
    if (store_ == nullptr) return;
    for (const auto chunk : arenas_.Chunks()) {
      if (Contains(registered_, chunk)) continue;
      store_->RegisterMemory(chunk);
      registered_.push_back(chunk);
    }
  }
  void UnregisterAllBut(const Chunks& staying) {
    std::erase_if(registered_, [&](std::span<std::byte> chunk) {
      if (Contains(staying, chunk)) return false;
      store_->UnregisterMemory(chunk);
      return true;
    });
  }

  numa::NodeArenas& arenas_;
  io::PageStore* const store_;
  Chunks registered_;
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

  bool host_readable() const override { return device_.host_readable(); }
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

std::unique_ptr<MemoryTier> MakeHostTier(numa::NodeArenas& arenas, io::PageStore* store) {
  return std::make_unique<HostTier>(arenas, store);
}

std::unique_ptr<MemoryTier> MakeDeviceTier(device::Device& device) {
  return std::make_unique<DeviceTier>(device);
}

}  // namespace sluice::engine
