#include "tests/support/temp_directory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "base/check.h"

namespace sluice::testing {

namespace {

std::string DefaultParent() {
  const char* parent = std::getenv("TMPDIR");
  return parent == nullptr ? "/var/tmp" : parent;
}

/// The name tells whose directory it is if the test leaves it behind.
std::string Template(const std::string& parent) {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name =
      test == nullptr ? "" : std::string(test->test_suite_name()) + "." + test->name() + "-";
  for (char& letter : name) letter = letter == '/' ? '.' : letter;
  return parent + "/sluice-test-" + name.substr(0, 60) + "XXXXXX";
}

}  // namespace

TempDirectory::TempDirectory() : TempDirectory(DefaultParent()) {}

TempDirectory::TempDirectory(const std::string& parent) : path_(Template(parent)) {
  SLUICE_CHECK(mkdtemp(path_.data()) != nullptr, "a test can make a temporary directory");
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

int TempDirectory::entries() const {
  const auto all = std::filesystem::directory_iterator(path_);
  return static_cast<int>(std::distance(begin(all), end(all)));
}

ScopedEnvironment::ScopedEnvironment(const std::string& name, const std::string& value)
    : name_(name) {
  if (const char* before = std::getenv(name.c_str())) before_ = before;
  setenv(name.c_str(), value.c_str(), 1);
}

ScopedEnvironment::~ScopedEnvironment() {
  before_.has_value() ? setenv(name_.c_str(), before_->c_str(), 1) : unsetenv(name_.c_str());
}

}  // namespace sluice::testing
