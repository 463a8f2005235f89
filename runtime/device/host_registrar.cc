#include "runtime/device/host_registrar.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/strings.h"
#include "base/thread.h"
#include "base/worker_pool.h"

namespace sluice::device {

HostRegistrar::~HostRegistrar() {
  stopping_.store(true);
  UnregisterAllBut({});
}

void HostRegistrar::Join() {
  if (thread_.joinable()) thread_.join();
}

void HostRegistrar::Register(const Chunks& chunks) {
  Join();
  Chunks fresh;
  {
    const base::MutexLock lock(mutex_);
    for (const std::span<std::byte> memory : chunks) {
      if (chunks_.emplace(memory.data(), Chunk{.memory = memory}).second) fresh.push_back(memory);
    }
  }
  if (fresh.empty()) return;
  RegisterOne(fresh.front());
  fresh.erase(fresh.begin());
  if (fresh.empty()) return;
  const auto rest = [this, fresh] {
    for (const std::span<std::byte> memory : fresh) {
      if (!stopping_.load()) RegisterOne(memory);
    }
  };
  auto started = base::StartThread([rest] {
    base::SetUpThread("sluice-register", {});
    rest();
  });
  if (started.ok()) {
    thread_ = *std::move(started);
  } else {
    rest();
  }
}

void HostRegistrar::RegisterOne(std::span<std::byte> memory) {
  const absl::Status status = device_.RegisterHost(memory);
  std::vector<Job> jobs;
  {
    const base::MutexLock lock(mutex_);
    Chunk& chunk = chunks_.at(memory.data());
    chunk.coming = false;
    chunk.registered = status.ok();
    jobs = std::move(chunk.jobs);
    if (!status.ok()) refusal_ = base::ToStd(status.message());
  }
  for (Job& job : jobs) job();
  if (!status.ok()) Tell();
}

void HostRegistrar::Tell() {
  const base::MutexLock lock(tell_mutex_);
  if (on_refused_) on_refused_();
}

void HostRegistrar::UnregisterAllBut(const Chunks& staying) {
  Join();
  std::vector<std::span<std::byte>> gone;
  {
    const base::MutexLock lock(mutex_);
    std::erase_if(chunks_, [&](const auto& entry) {
      const std::span<std::byte> memory = entry.second.memory;
      const bool stays = std::any_of(staying.begin(), staying.end(), [&](const auto& other) {
        return other.data() == memory.data() && other.size() == memory.size();
      });
      if (!stays && entry.second.registered) gone.push_back(memory);
      return !stays;
    });
  }
  for (const std::span<std::byte> memory : gone) device_.UnregisterHost(memory);
}

const HostRegistrar::Chunk* HostRegistrar::Find(const std::byte* byte) const {
  const auto next = chunks_.upper_bound(byte);
  if (next == chunks_.begin()) return nullptr;
  const Chunk& chunk = std::prev(next)->second;
  return byte < chunk.memory.data() + chunk.memory.size() ? &chunk : nullptr;
}

void HostRegistrar::WhenSettled(const std::byte* byte, Job job) {
  {
    const base::MutexLock lock(mutex_);
    const Chunk* const chunk = Find(byte);
    if (chunk != nullptr && chunk->coming) {
      chunks_.at(chunk->memory.data()).jobs.push_back(std::move(job));
      return;
    }
  }
  job();
}

bool HostRegistrar::IsRegistered(const std::byte* byte) const {
  const base::MutexLock lock(mutex_);
  const Chunk* const chunk = Find(byte);
  return chunk != nullptr && chunk->registered;
}

std::string HostRegistrar::refusal() const {
  const base::MutexLock lock(mutex_);
  return refusal_;
}

void HostRegistrar::OnRefused(std::function<void()> tell) {
  {
    const base::MutexLock lock(tell_mutex_);
    on_refused_ = std::move(tell);
  }
  if (!refusal().empty()) Tell();
}

}  // namespace sluice::device
