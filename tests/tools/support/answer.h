#pragma once

#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::tools {

/// Answer of a sub-command.
struct Answered {
  int exit_code = 0;
  std::string output;
  std::string errors;
};

/// Runs a sub-command in this process.
inline Answered Answer(int (*run)(std::span<const std::string>),
                       const std::vector<std::string>& words) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Answered answer;
  answer.exit_code = run(words);
  answer.output = ::testing::internal::GetCapturedStdout();
  answer.errors = ::testing::internal::GetCapturedStderr();
  return answer;
}

}  // namespace sluice::tools
