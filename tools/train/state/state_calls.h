#pragma once

#include <sys/types.h>

#include <string>

#include "base/file_calls.h"

namespace sluice::tools {

/// The calls of the operating system that keep a directory of saves, in the way of base::FileCalls.
class StateCalls : public base::FileCalls {
 public:
  virtual int MakeDirectory(const std::string& path, mode_t mode);
  virtual int RemoveDirectory(const std::string& path);
};

}  // namespace sluice::tools
