#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"

namespace sluice::engine {

/// Numbers names in the order of their first appearance; the core knows only the numbers. The table
/// keeps `names_max` names: a further one replaces the name that was asked for longest ago. A
/// forgotten name that comes again gets another number.
/// Threads: any.
class NameTable {
 public:
  explicit NameTable(std::size_t names_max = SIZE_MAX) : names_max_(names_max) {}

  std::uint32_t IndexOf(std::string_view name) {
    base::MutexLock lock(mutex_);
    const auto found = places_.find(name);
    if (found == places_.end()) return Add(name);
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->index;
  }

 private:
  struct Name {
    std::string text;
    std::uint32_t index = 0;
  };

  std::uint32_t Add(std::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (recent_.size() == names_max_) {
      places_.erase(recent_.back().text);
      recent_.pop_back();
    }
    recent_.push_front({std::string(name), next_});
    places_.emplace(recent_.front().text, recent_.begin());
    return next_++;
  }

  const std::size_t names_max_;
  base::Mutex mutex_;
  std::uint32_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Name> recent_ ABSL_GUARDED_BY(mutex_);  ///< the most recent first
  /// Keys are the texts in the list.
  std::unordered_map<std::string_view, std::list<Name>::iterator> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
