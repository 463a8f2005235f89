#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice::core {

/// Choices of a random program: a seed gives the same ones each time.
class RandomChoices {
 public:
  explicit RandomChoices(std::uint64_t seed) : random_(seed) {}

  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  bool Chance(std::uint32_t per_mille) { return Below(1000) < per_mille; }
  template <typename T>
  void Shuffle(std::vector<T>* items) {
    std::shuffle(items->begin(), items->end(), random_);
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace sluice::core
