#include "tools/train/report/memory_sampler.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"

namespace sluice::tools {
namespace {

constexpr std::string_view kMemfdPrefix = "/memfd:sluice-";
constexpr std::uint64_t kBytesPerBlock = 512;

std::uint64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  std::string label;
  while (status >> label) {
    std::uint64_t kibibytes = 0;
    if (label == "RssAnon:" && status >> kibibytes) return kibibytes << 10;
    status.ignore(4096, '\n');
  }
  return 0;
}

bool IsSluiceMemfd(const char* link) {
  std::array<char, 256> target;
  const ssize_t length = readlink(link, target.data(), target.size());
  if (length <= 0) return false;
  return std::string_view(target.data(), static_cast<std::size_t>(length))
      .starts_with(kMemfdPrefix);
}

std::uint64_t MemfdBytes() {
  std::set<std::pair<dev_t, ino_t>> seen;
  std::uint64_t bytes = 0;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator("/proc/self/fd", error);
       !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    struct stat facts;
    // A descriptor may be closed while the list is read: then it holds nothing.
    if (!IsSluiceMemfd(entry->path().c_str()) || stat(entry->path().c_str(), &facts) != 0) continue;
    if (!seen.emplace(facts.st_dev, facts.st_ino).second) continue;
    bytes += static_cast<std::uint64_t>(facts.st_blocks) * kBytesPerBlock;
  }
  return bytes;
}

}  // namespace

std::uint64_t ResidentBytes() { return AnonymousBytes() + MemfdBytes(); }

absl::StatusOr<std::unique_ptr<MemorySampler>> MemorySampler::Create(
    std::chrono::milliseconds interval) {
  std::unique_ptr<MemorySampler> sampler(new MemorySampler(interval));
  sampler->Sample();
  MemorySampler* const self = sampler.get();
  SLUICE_ASSIGN_OR_RETURN(sampler->thread_, base::StartThread([self] { self->Run(); }));
  return sampler;
}

MemorySampler::~MemorySampler() {
  {
    base::MutexLock lock(mutex_);
    stop_ = true;
    stop_changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

std::uint64_t MemorySampler::Sample() {
  const std::uint64_t bytes = ResidentBytes();
  std::uint64_t peak = peak_bytes_.load();
  while (bytes > peak && !peak_bytes_.compare_exchange_weak(peak, bytes)) {
  }
  return peak_bytes_.load();
}

void MemorySampler::Run() {
  base::SetUpThread("sluice-memory", {});
  auto next = std::chrono::steady_clock::now() + interval_;
  base::MutexLock lock(mutex_);
  while (!stop_) {
    if (stop_changed_.WaitUntil(mutex_, next)) continue;
    next = std::chrono::steady_clock::now() + interval_;
    mutex_.Unlock();
    Sample();
    mutex_.Lock();
  }
}

}  // namespace sluice::tools
