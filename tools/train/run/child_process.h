#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "tools/train/run/channel.h"

namespace sluice::tools {

/// A second process of this program, connected by a channel that is its standard input. Its
/// standard output is the parent's standard error. The process is stopped whenever it waits for a
/// message. Threads: externally synchronised.
class ChildProcess {
 public:
  /// Starts the process with `words`. Errors: those of posix_spawn(3).
  static absl::StatusOr<ChildProcess> Start(std::span<const std::string> words);
  ChildProcess(ChildProcess&& other) noexcept
      : channel_(std::move(other.channel_)), process_(std::exchange(other.process_, -1)) {}
  /// Ends and reaps the process.
  ~ChildProcess();

  Channel& channel() { return channel_; }

 private:
  ChildProcess(Channel channel, pid_t process) : channel_(std::move(channel)), process_(process) {}

  Channel channel_;
  pid_t process_;
};

/// Prepares a child, first of all: it dies with its parent, and leaves interrupts to the parent.
void BecomeChild();

}  // namespace sluice::tools
