#include "tools/support/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace sluice::tools {
namespace {

bool IsClosed(int descriptor) { return fcntl(descriptor, F_GETFD) < 0 && errno == EBADF; }

/// Takes the lowest free number.
int OpenStandIn(int access) {
  const int descriptor = open("/dev/null", access | O_NOCTTY);
  // A system without /dev gets a descriptor that nothing can be written to.
  return descriptor >= 0 ? descriptor : open("/", O_RDONLY | O_DIRECTORY);
}

}  // namespace

bool OpenStandardStreams() {
  bool all = true;
  // The streams are opened in order, so that the lowest free number is the stream's own.
  for (const int stream : std::array{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (!IsClosed(stream)) continue;
    // Output that is open for reading only loses nothing silently.
    const int access = stream == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    all = OpenStandIn(access) == stream && all;
  }
  return all;
}

}  // namespace sluice::tools
