#pragma once

/// Ends the test, and says why, in a build whose sanitizer's own memory would be measured.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLUICE_SKIP_UNDER_SANITIZERS() GTEST_SKIP() << "a sanitizer's own memory would count"
#else
#define SLUICE_SKIP_UNDER_SANITIZERS() static_cast<void>(0)
#endif
