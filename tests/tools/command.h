#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/tools/temporary_directory.h"

namespace sluice::tools {

/// The sluice command, run as a user would run it.
class Command {
 public:
  struct Surroundings {
    /// Added to the environment: "NAME=value".
    std::vector<std::string> variables;
    /// A program that runs the command, and its words: `setpriv ...`.
    std::vector<std::string> run_by;
    /// The file of a cgroup that takes its processes; empty: the test's own cgroup.
    std::string cgroup_processes;
    /// The file that is standard input; empty: the test's own.
    std::string input_path;
    /// Where standard output goes instead of to output(); likewise errors.
    std::string output_path;
    std::string errors_path;
    /// Descriptors that are closed when it starts, as `>&-` does.
    std::vector<int> closed;
  };
  explicit Command(const std::vector<std::string>& words, const Surroundings& surroundings = {});
  /// Kills it when it still runs.
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Reads standard output until it holds `text`; false when it ended before.
  bool ReadUntil(const std::string& text);
  void Signal(int number) const;
  /// Nobody reads standard output any more.
  void CloseOutput();
  /// Reads everything and waits: the exit code, or 128 + the signal that ended it.
  int Wait();

  const std::string& output() const { return output_; }
  /// Standard error. REQUIRES: Wait has returned.
  std::string errors() const { return ReadWhole(directory_ / "errors"); }

 private:
  bool ReadMore();

  TemporaryDirectory directory_;
  pid_t process_ = -1;
  int descriptor_ = -1;
  std::string output_;
};

}  // namespace sluice::tools
