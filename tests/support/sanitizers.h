#pragma once

#include <cstddef>

#include "absl/base/config.h"

namespace sluice::testing {

/// Factor by which this build is slower than others, approximately.
#if defined(ABSL_HAVE_THREAD_SANITIZER)
inline constexpr int kSlowdown = 30;
#elif defined(ABSL_HAVE_ADDRESS_SANITIZER)
inline constexpr int kSlowdown = 4;
#else
inline constexpr int kSlowdown = 1;
#endif

/// Stride through the cases of a product, and the part of a random test's rounds that a build runs.
/// ThreadSanitizer watches threads: kinds of optimizers and types of states have none of their own.
#if defined(ABSL_HAVE_THREAD_SANITIZER)
inline constexpr std::size_t kCaseStride = 7;
constexpr int Rounds(int rounds) { return (rounds + 3) / 4; }
#else
inline constexpr std::size_t kCaseStride = 1;
constexpr int Rounds(int rounds) { return rounds; }
#endif

}  // namespace sluice::testing

/// Ends the test, and says why, in a build whose sanitizer's own memory would be measured.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
#define SLUICE_SKIP_UNDER_SANITIZERS() GTEST_SKIP() << "a sanitizer's own memory would count"
#else
#define SLUICE_SKIP_UNDER_SANITIZERS() static_cast<void>(0)
#endif

/// Ends the test, and says why, in a sanitizer's build that would count long traces. Shorter tests
/// run the same code.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
#define SLUICE_SKIP_FIGURES_UNDER_SANITIZERS() GTEST_SKIP() << "a figure needs minutes here"
#else
#define SLUICE_SKIP_FIGURES_UNDER_SANITIZERS() static_cast<void>(0)
#endif

/// Ends the test, and says why, where a child of a process with threads may hang in malloc: this
/// AddressSanitizer does not take its locks before a fork.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER)
#define SLUICE_SKIP_FORK_UNDER_ASAN() \
  GTEST_SKIP() << "AddressSanitizer's own locks do not survive a fork beside other threads"
#else
#define SLUICE_SKIP_FORK_UNDER_ASAN() static_cast<void>(0)
#endif

/// Ends the test, and says why, in a sanitizer's build with a child that does more than call and
/// _exit: it starts threads, exits, or is to crash.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
#define SLUICE_SKIP_FORK_UNDER_SANITIZERS() \
  GTEST_SKIP() << "a sanitizer's own threads and handlers do not survive this fork"
#else
#define SLUICE_SKIP_FORK_UNDER_SANITIZERS() static_cast<void>(0)
#endif

/// A function that reads memory while another thread maps something else there, which
/// ThreadSanitizer takes for a write. It calls nothing that the sanitizer watches, memcpy included.
#if defined(ABSL_HAVE_THREAD_SANITIZER)
#define SLUICE_READS_BESIDE_MAPPINGS __attribute__((no_sanitize("thread"), noinline))
#else
#define SLUICE_READS_BESIDE_MAPPINGS
#endif

/// Ends the test, and says why, in a sanitizer's build if sched_getaffinity is refused. A sanitizer
/// calls it for each thread that begins.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
#define SLUICE_SKIP_AFFINITY_UNDER_SANITIZERS() \
  GTEST_SKIP() << "a sanitizer needs sched_getaffinity for each thread that begins"
#else
#define SLUICE_SKIP_AFFINITY_UNDER_SANITIZERS() static_cast<void>(0)
#endif
