#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"

namespace sluice::engine {

/// Numbers names in the order of their first appearance; the core knows only the numbers.
/// Threads: any.
class NameTable {
 public:
  std::uint32_t IndexOf(std::string_view name) {
    base::MutexLock lock(mutex_);
    const auto next = static_cast<std::uint32_t>(indices_.size());
    return indices_.try_emplace(std::string(name), next).first->second;
  }

 private:
  base::Mutex mutex_;
  std::unordered_map<std::string, std::uint32_t> indices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
