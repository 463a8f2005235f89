#include "tests/runtime/engine/runtime_fixture.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"
#include "runtime/engine/api/runtime_state.h"
#include "tests/support/status_matchers.h"

namespace sluice::testing {

LogSink LogCollector::sink() {
  return [this](LogLevel, std::string_view line) {
    base::MutexLock lock(mutex_);
    lines_.emplace_back(line);
  };
}

int LogCollector::Count(std::string_view text) const {
  base::MutexLock lock(mutex_);
  return static_cast<int>(std::count_if(lines_.begin(), lines_.end(), [&](const auto& line) {
    return line.find(text) != std::string::npos;
  }));
}

std::string LogCollector::All() const {
  base::MutexLock lock(mutex_);
  std::string all;
  for (const std::string& line : lines_) all += line + "\n";
  return all;
}

void CountingListener::OnPageLost(const PageLostEvent& event) {
  base::MutexLock lock(mutex_);
  lost_.push_back(event);
}
void CountingListener::OnFallback(const FallbackEvent& event) {
  base::MutexLock lock(mutex_);
  fallbacks_.push_back(event);
}
void CountingListener::OnTierFenced(const TierFencedEvent& event) {
  base::MutexLock lock(mutex_);
  fenced_.push_back(event);
}
void CountingListener::OnTransferStalled(const TransferStalledEvent& event) {
  base::MutexLock lock(mutex_);
  stalled_.push_back(event);
}
void CountingListener::OnLeaseStalled(const LeaseStalledEvent& event) {
  const base::MutexLock lock(mutex_);
  stalled_leases_.push_back(event);
}
std::vector<LeaseStalledEvent> CountingListener::stalled_leases() const {
  const base::MutexLock lock(mutex_);
  return stalled_leases_;
}
std::vector<PageLostEvent> CountingListener::lost() const {
  base::MutexLock lock(mutex_);
  return lost_;
}
std::vector<FallbackEvent> CountingListener::fallbacks() const {
  base::MutexLock lock(mutex_);
  return fallbacks_;
}
std::vector<TierFencedEvent> CountingListener::fenced() const {
  base::MutexLock lock(mutex_);
  return fenced_;
}
void CountingListener::OnDriveFenced(const DriveFencedEvent& event) {
  base::MutexLock lock(mutex_);
  drives_fenced_.push_back(event);
}
std::vector<DriveFencedEvent> CountingListener::drives_fenced() const {
  base::MutexLock lock(mutex_);
  return drives_fenced_;
}
std::vector<TransferStalledEvent> CountingListener::stalled() const {
  base::MutexLock lock(mutex_);
  return stalled_;
}

RuntimeFixture::RuntimeFixture() {
  options.page_bytes = Bytes(kPage);
  options.hbm_bytes = Bytes(kHbmPages * kPage);
  options.dram_bytes = Bytes(kDramPages * kPage);
  options.nvme_bytes = Bytes(kNvmePages * kPage);
  options.io.directory = directory_.path();
  options.log = log.sink();
  options.listener = &listener;
}

void RuntimeFixture::Start() {
  runtime_.reset();
  auto runtime = internal::RuntimeAccess::Create(options, hooks);
  ASSERT_THAT(runtime, IsOk());
  runtime_ = *std::move(runtime);
}

TensorId RuntimeFixture::Make(const std::string& name, std::uint64_t bytes) {
  const auto tensor = runtime_->CreateTensor(ByteTensor(name, bytes));
  EXPECT_THAT(tensor, IsOk());
  return tensor.ok() ? *tensor : TensorId{};
}

absl::StatusOr<Lease> RuntimeFixture::Acquire(const Access& access) {
  Op op = runtime_->BeginOp({.name = "fixture"});
  return op.Acquire(access);
}

void RuntimeFixture::Write(TensorId tensor,
                           std::span<const std::byte> bytes,
                           std::uint64_t offset,
                           TierId tier) {
  while (!bytes.empty()) {
    const std::uint64_t part = std::min<std::uint64_t>(bytes.size(), kPage - offset % kPage);
    auto lease = Acquire({.tensor = tensor,
                          .range = {offset, part},
                          .mode = AccessMode::kOverwrite,
                          .tier = tier,
                          .contiguous = false});
    ASSERT_THAT(lease, IsOk());
    for (const std::span<std::byte> span : lease->Spans()) {
      std::memcpy(span.data(), bytes.data(), span.size());
      bytes = bytes.subspan(span.size());
    }
    offset += part;
  }
}

std::vector<std::byte> RuntimeFixture::Read(TensorId tensor, TierId tier) {
  std::vector<std::byte> bytes;
  const std::uint64_t size = runtime_->SizeOfTensor(tensor).value().count();
  while (bytes.size() < size) {
    const std::uint64_t part = std::min<std::uint64_t>(kPage, size - bytes.size());
    const auto lease = Acquire({.tensor = tensor, .range = {bytes.size(), part}, .tier = tier});
    EXPECT_THAT(lease, IsOk());
    if (!lease.ok()) return bytes;
    const std::span<std::byte> content = lease->Contiguous();
    bytes.insert(bytes.end(), content.data(), content.data() + content.size());
  }
  return bytes;
}

TensorSpec ByteTensor(const std::string& name, std::uint64_t bytes) {
  return {.name = name, .shape = {static_cast<std::int64_t>(bytes)}, .dtype = DType::kU8};
}

std::vector<std::byte> Pattern(std::uint64_t seed, std::uint64_t bytes) {
  std::vector<std::byte> pattern(bytes);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  // Pointers: a sanitizer's build, which inlines nothing, is five times slower with iterators.
  for (std::byte *at = pattern.data(), *end = at + bytes; at != end; ++at) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    *at = static_cast<std::byte>(state >> 56);
  }
  return pattern;
}

}  // namespace sluice::testing
