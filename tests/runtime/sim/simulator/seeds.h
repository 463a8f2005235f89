#pragma once

#include <cstdint>
#include <cstdlib>

namespace sluice::sim {

/// A number that whoever runs a test may choose.
inline std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// The seeds of a random test: SLUICE_TEST_SEED=17 is that one only, SLUICE_TEST_SEEDS=9000 are 1
/// to 9000.
struct Seeds {
  explicit Seeds(std::uint64_t count)
      : only(FromEnvironment("SLUICE_TEST_SEED", 0)),
        first(only != 0 ? only : 1),
        last(only != 0 ? only : FromEnvironment("SLUICE_TEST_SEEDS", count)) {}

  std::uint64_t only;  ///< 0: many
  std::uint64_t first;
  std::uint64_t last;
};

}  // namespace sluice::sim
