#include "io/engine/io_engine.h"

#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::io {
namespace {

bool IsAligned(const IoCommand& command) {
  const std::uint64_t mask = command.file->alignment - 1;
  const auto address = reinterpret_cast<std::uintptr_t>(command.data);
  return ((command.offset | command.bytes | address) & mask) == 0;
}

bool IsInside(const IoCommand& command) {
  const std::uint64_t end = command.file->bytes;
  return command.bytes > 0 && command.bytes <= end && command.offset <= end - command.bytes;
}

absl::Status Refuse(const IoCommand& command, std::string_view why) {
  return absl::InvalidArgumentError(base::ToAbsl(
      fmt::format("I/O of {} bytes at offset {} {}", command.bytes, command.offset, why)));
}

}  // namespace

RegisteredMemory IoEngine::RegisterMemory(std::span<std::byte> /*memory*/) {
  return {.reason = fmt::format("the engine \"{}\" registers none", name())};
}

absl::Status IoEngine::Submit(IoRequest* request) {
  const IoCommand& command = request->command;
  if (!IsAligned(command)) {
    return Refuse(command, fmt::format("is not aligned to {}", command.file->alignment));
  }
  if (!IsInside(command)) {
    return Refuse(command, fmt::format("is outside of its file of {} bytes", command.file->bytes));
  }
  request->alone_ = false;
  SubmitChecked(request);
  return absl::OkStatus();
}

}  // namespace sluice::io
