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
    /// Variables added to the environment: "NAME=value".
    std::vector<std::string> variables;
    /// A program that runs the command, and its words: `setpriv ...`.
    std::vector<std::string> run_by;
    /// The file of a cgroup that takes its processes; empty: the test's own cgroup.
    std::string cgroup_processes;
    /// The file that is standard input; empty: the test's own.
    std::string input_path;
    /// Files of standard output and standard error; empty: output() and errors() read them.
    std::string output_path;
    std::string errors_path;
    /// Descriptors that are closed at the start of the command, like `>&-` does.
    std::vector<int> closed;
  };
  explicit Command(const std::vector<std::string>& words, const Surroundings& surroundings = {});
  /// Kills the command if it still runs.
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Reads standard output until it holds `text`. Returns false if it ended before.
  bool ReadUntil(const std::string& text);
  void Signal(int number) const;
  /// Closes the reading end of standard output.
  void CloseOutput();
  /// Reads everything and waits. Returns the exit code, or 128 + the signal that ended the command.
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
