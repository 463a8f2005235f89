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

/// Messages between a run and the run in RAM, which is a process of its own.
enum class MessageType : std::uint32_t {
  kSource,     ///< name of the configuration, sent to the child
  kConfig,     ///< text of the configuration, sent to the child
  kSet,        ///< assignment that overrides a key, sent to the child
  kText,       ///< bytes to train on, sent to the child in pieces
  kInit,       ///< path of the weights that the child begins from
  kStart,      ///< end of the messages above; the child answers kEnd and its first validation
  kRunSteps,   ///< number of steps to run; the child answers kSteps
  kSteps,      ///< losses and seconds of each step
  kSendState,  ///< request for the state; the child answers kTensor and kChunk messages, then kEnd
  kTensor,     ///< name of the tensor whose chunks follow
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
  /// Takes over the descriptor.
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  Channel(Channel&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), stop_(std::move(other.stop_)) {}
  Channel& operator=(Channel&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(stop_, other.stop_);
    return *this;
  }
  ~Channel() { Close(); }

  /// Sets the function that is asked while the other end keeps this one waiting. True: Send and
  /// Receive end with Cancelled within a message, and the channel is of no more use. Empty: nothing
  /// is asked.
  void SetStop(std::function<bool()> stop) { stop_ = std::move(stop); }
  /// Sends a message. Errors: Unavailable when the other end is gone.
  absl::Status Send(MessageType type, std::string_view payload = {});
  /// Sends a kError with the status. REQUIRES: the status is an error.
  absl::Status SendError(const absl::Status& status);
  /// Blocks for the next message. Errors: Unavailable when the other end is gone.
  absl::StatusOr<Message> Receive();
  /// Receives a message that must be of `type`. Errors: those of Receive; that of a kError.
  absl::StatusOr<std::string> Expect(MessageType type);

  /// Closes this end. The other end receives no more than the messages sent before.
  void Close();

 private:
  absl::Status SendAll(const char* data, std::size_t bytes);
  absl::Status ReceiveAll(char* data, std::size_t bytes);
  /// Waits until `events` of poll(2) have come.
  absl::Status Await(short events);

  int descriptor_;
  std::function<bool()> stop_;
};

/// The bytes of a value in memory, for payloads. The result lives as long as the value.
template <typename T>
std::string_view PayloadOf(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

/// The value of a payload. Errors: Internal for another size.
template <typename T>
absl::StatusOr<T> ValueFrom(std::string_view payload) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (payload.size() != sizeof(T)) return absl::InternalError("a message has a wrong size");
  T value;
  std::memcpy(&value, payload.data(), sizeof(T));
  return value;
}

/// Makes two connected ends. Errors: those of socketpair(2).
absl::StatusOr<std::pair<Channel, int>> MakeChannel();

}  // namespace sluice::tools
