#include "tools/train/run/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/status.h"
#include "base/strings.h"

namespace sluice::tools {
namespace {

struct Header {
  std::uint64_t type = 0;
  std::uint64_t bytes = 0;
};

/// Largest message, far above any; a longer one means that the other end is out of step.
constexpr std::uint64_t kMessageBytesMax = std::uint64_t{1} << 40;

/// Milliseconds between two questions whether to stop.
constexpr int kStopAskedMs = 20;

absl::Status Gone() { return absl::UnavailableError("the other process has gone"); }

absl::Status ErrorFrom(const std::string& payload) {
  if (payload.empty()) return absl::InternalError("the other process failed and does not say why");
  const auto code = static_cast<absl::StatusCode>(payload.front());
  return absl::Status(code, base::ToAbsl(std::string_view(payload).substr(1)));
}

}  // namespace

absl::Status Channel::Await(short events) {
  pollfd waits{.fd = descriptor_, .events = events, .revents = 0};
  const int timeout = stop_ ? kStopAskedMs : -1;
  for (;;) {
    const int ready = poll(&waits, 1, timeout);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return base::StatusFromErrno(errno, "poll");
    if (stop_ && stop_()) return absl::CancelledError("stopped as asked for");
  }
}

absl::Status Channel::SendAll(const char* data, std::size_t bytes) {
  while (bytes > 0) {
    SLUICE_RETURN_IF_ERROR(Await(POLLOUT));
    const ssize_t sent = send(descriptor_, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return Gone();
    if (sent < 0) return base::StatusFromErrno(errno, "send");
    data += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return absl::OkStatus();
}

absl::Status Channel::ReceiveAll(char* data, std::size_t bytes) {
  while (bytes > 0) {
    SLUICE_RETURN_IF_ERROR(Await(POLLIN));
    const ssize_t received = recv(descriptor_, data, bytes, MSG_DONTWAIT);
    if (received < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (received == 0 || (received < 0 && errno == ECONNRESET)) return Gone();
    if (received < 0) return base::StatusFromErrno(errno, "receive");
    data += received;
    bytes -= static_cast<std::size_t>(received);
  }
  return absl::OkStatus();
}

absl::Status Channel::Send(MessageType type, std::string_view payload) {
  const Header header{.type = static_cast<std::uint64_t>(type), .bytes = payload.size()};
  std::array<char, sizeof(Header)> bytes;
  std::memcpy(bytes.data(), &header, sizeof(header));
  SLUICE_RETURN_IF_ERROR(SendAll(bytes.data(), bytes.size()));
  return SendAll(payload.data(), payload.size());
}

absl::StatusOr<Message> Channel::Receive() {
  std::array<char, sizeof(Header)> bytes;
  SLUICE_RETURN_IF_ERROR(ReceiveAll(bytes.data(), bytes.size()));
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.type > static_cast<std::uint64_t>(MessageType::kError) ||
      header.bytes > kMessageBytesMax) {
    return absl::InternalError("a message between the processes is damaged");
  }
  Message message{.type = static_cast<MessageType>(header.type)};
  message.payload.resize(header.bytes);
  SLUICE_RETURN_IF_ERROR(ReceiveAll(message.payload.data(), message.payload.size()));
  return message;
}

absl::Status Channel::SendError(const absl::Status& status) {
  const char code = static_cast<char>(status.code());
  return Send(MessageType::kError, code + std::string(base::ToStd(status.message())));
}

absl::StatusOr<std::string> Channel::Expect(MessageType type) {
  SLUICE_ASSIGN_OR_RETURN(Message message, Receive());
  if (message.type == type) return std::move(message.payload);
  if (message.type == MessageType::kError) return ErrorFrom(message.payload);
  return absl::InternalError("the other process is out of step");
}

void Channel::Close() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

absl::StatusOr<std::pair<Channel, int>> MakeChannel() {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return base::StatusFromErrno(errno, "connect the processes");
  }
  return std::pair<Channel, int>(Channel(ends[0]), ends[1]);
}

}  // namespace sluice::tools
