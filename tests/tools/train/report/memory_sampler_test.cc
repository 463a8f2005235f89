#include "tools/train/report/memory_sampler.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSize = 32 * kMiB;
/// Bytes that the test's own work may add meanwhile.
constexpr std::uint64_t kSlack = 4 * kMiB;

class MemfdMapping {
 public:
  explicit MemfdMapping(const char* name) : descriptor_(memfd_create(name, MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(descriptor_, kSize), 0);
    address_ = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    alias_ = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  }
  ~MemfdMapping() {
    munmap(address_, kSize);
    munmap(alias_, kSize);
    close(descriptor_);
  }
  void Touch() {
    std::memset(address_, 1, kSize);
    std::memset(alias_, 2, kSize);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
  void* address_;
  void* alias_;
};

TEST(MemorySamplerTest, CountsAnonymousMemoryWhenTouched) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  void* const memory =
      mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::uint64_t before = ResidentBytes();
  std::memset(memory, 1, kSize);
  const std::uint64_t after = ResidentBytes();
  munmap(memory, kSize);
  EXPECT_GE(after, before + kSize - kSlack);
  EXPECT_LE(after, before + kSize + kSlack);
}

TEST(MemorySamplerTest, CountsAMemfdOnceHoweverOftenItIsMappedAndOpen) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  MemfdMapping mapping("sluice-test");
  const int duplicate = dup(mapping.descriptor());
  const std::uint64_t before = ResidentBytes();
  mapping.Touch();
  const std::uint64_t after = ResidentBytes();
  close(duplicate);
  EXPECT_GE(after, before + kSize);
  EXPECT_LE(after, before + kSize + kSlack);
}

TEST(MemorySamplerTest, IgnoresOthersMemfds) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  MemfdMapping mapping("other");
  const std::uint64_t before = ResidentBytes();
  mapping.Touch();
  EXPECT_LE(ResidentBytes(), before + kSlack);
}

TEST(MemorySamplerTest, ThreadSeesAPeakBetweenSamples) {
  const auto created = MemorySampler::Create(std::chrono::milliseconds(1));
  ASSERT_TRUE(created.ok()) << created.status();
  MemorySampler& sampler = **created;
  const std::uint64_t before = sampler.peak_bytes();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  // The memory is mapped anew, since the heap may be resident already.
  auto mapping = std::make_unique<MemfdMapping>("sluice-test");
  mapping->Touch();
  while (sampler.peak_bytes() < before + kSize - kSlack) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the thread takes no samples";
  }
  const std::uint64_t peak = sampler.peak_bytes();
  mapping.reset();
  EXPECT_GE(sampler.Sample(), peak);
}

}  // namespace
}  // namespace sluice::tools
