#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice::tools {

/// What a run and the run in RAM, in a process of its own, say to each other.
enum class MessageType : std::uint32_t {
  kSource,     ///< name of the configuration, sent to the child
  kConfig,     ///< text of the configuration, sent to the child
  kSet,        ///< assignment that overrides a key, sent to the child
  kText,       ///< bytes to train on, sent to the child in pieces
  kInit,       ///< path of the weights that the child begins from
  kStart,      ///< end of these; the child answers kEnd and its first validation
  kRunSteps,   ///< number of steps to run; the child answers kSteps
  kSteps,      ///< losses and seconds of each step
  kSendState,  ///< request for the state; the child answers kTensor and kChunk messages, then kEnd
  kTensor,     ///< the name of the tensor whose chunks follow
  kChunk,      ///< bytes of that tensor, in order
  kEnd,
  kError,  ///< the child failed: the code of a status, one byte, and its text
};

struct Message {
  MessageType type = MessageType::kEnd;
  std::string payload;
};

/// One end of a connected pair of local sockets that carries whole messages.
/// Threads: externally synchronised.
class Channel {
 public:
  /// Takes the descriptor over.
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  Channel(Channel&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), stop_(std::move(other.stop_)) {}
  Channel& operator=(Channel&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(stop_, other.stop_);
    return *this;
  }
  ~Channel() { Close(); }

  /// Asked while the other end keeps this one waiting; true: Send and Receive end with Cancelled,
  /// within a message, so that the channel is of no more use. Empty: never.
  void SetStop(std::function<bool()> stop) { stop_ = std::move(stop); }
  /// Errors: Unavailable when the other end is gone.
  absl::Status Send(MessageType type, std::string_view payload = {});
  /// A kError of the status. REQUIRES: it is none of success.
  absl::Status SendError(const absl::Status& status);
  /// Blocks for the next message. Errors: Unavailable when the other end is gone.
  absl::StatusOr<Message> Receive();
  /// As Receive, for a message that must be of `type`. Errors: also what a kError says.
  absl::StatusOr<std::string> Expect(MessageType type);

  /// The other end receives no more than what was sent.
  void Close();

 private:
  absl::Status SendAll(const char* data, std::size_t bytes);
  absl::Status ReceiveAll(char* data, std::size_t bytes);
  /// Returns once `events` of poll(2) have come.
  absl::Status Await(short events);

  int descriptor_;
  std::function<bool()> stop_;
};

/// A value as it is in memory, for payloads. The result lives as long as the value.
template <typename T>
std::string_view PayloadOf(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

/// The other way. Errors: Internal for another size.
template <typename T>
absl::StatusOr<T> ValueFrom(std::string_view payload) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (payload.size() != sizeof(T)) return absl::InternalError("a message has a wrong size");
  T value;
  std::memcpy(&value, payload.data(), sizeof(T));
  return value;
}

/// Two connected ends. Errors: as socketpair(2).
absl::StatusOr<std::pair<Channel, int>> MakeChannel();

}  // namespace sluice::tools
