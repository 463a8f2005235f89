#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice::device {

/// Function that the device calls once when a copy or a stream's work is done, on a thread of its
/// own.
using DoneFn = absl::AnyInvocable<void(absl::Status)>;
/// Function that the device calls at most once before the copy's DoneFn, on a thread of its own.
/// From then on Stream::WaitForCopies puts work behind the copy.
using StartedFn = absl::AnyInvocable<void()>;

/// A reserved range of device addresses: one stable address per segment.
class DeviceRange {
 public:
  virtual ~DeviceRange() = default;
  virtual std::byte* base() const = 0;
  virtual std::uint64_t bytes() const = 0;
};

/// An ordered queue of work for the device; independent of other streams and of the copy engines.
/// Threads: any.
class Stream {
 public:
  /// Waits for the stream's work. In the stream's own work, or for an adopted stream, it returns at
  /// once, and the rest of the work still runs.
  virtual ~Stream() = default;
  /// Runs `work` after everything enqueued before. On a GPU, `work` is only the host side, which
  /// enqueues the GPU's work. The emulated device runs the work itself.
  virtual void Enqueue(absl::AnyInvocable<void()> work) = 0;
  /// Calls `done` when everything enqueued so far is done. Errors: FailedPrecondition (a graph is
  /// being captured), Unavailable (a dead GPU); then `done` is never called.
  virtual absl::Status Notify(DoneFn done) = 0;
  /// Whether WaitForCopies works now. It never does on a device that calls no StartedFn, nor while
  /// a graph is being captured.
  virtual bool CanWaitForCopies() const { return false; }
  /// Puts work that is enqueued from now on behind the copies into these frames that have started.
  /// Errors: FailedPrecondition (a graph is being captured), Unavailable (a dead GPU).
  virtual absl::Status WaitForCopies(std::span<const std::uint32_t> /*frames*/) {
    return absl::UnimplementedError("the streams of this device do not wait for its copies");
  }
  /// Waits for all work of the stream. REQUIRES: the stream's own work does not call it.
  virtual void Synchronize() = 0;
  /// Whether the caller is work of this stream.
  virtual bool InOwnWork() const = 0;
  /// Whether the stream is the user's, see Device::AdoptStream.
  virtual bool adopted() const { return false; }
};

/// One HBM tier: frames, mappings of frames under stable addresses, and one copy engine per
/// direction. Copies of one direction complete in the order of submission; the two directions run
/// beside each other. The memory of a frame is device memory: it is never an alias of a host frame.
/// Threads: all methods from any thread.
class Device {
 public:
  virtual ~Device() = default;  ///< completes the copies of both engines

  virtual std::string_view name() const = 0;  ///< name of the kind: "emulated", "cuda"
  virtual std::uint32_t frame_count() const = 0;
  virtual std::uint64_t page_bytes() const = 0;

  /// The frame's own device address.
  virtual std::span<std::byte> Frame(std::uint32_t frame) const = 0;
  /// Whether the host reads and writes frames and ranges in place. Elsewhere only copies and fills
  /// reach them.
  virtual bool host_accessible() const = 0;

  virtual absl::StatusOr<std::unique_ptr<DeviceRange>> ReserveRange(std::uint64_t bytes) = 0;
  /// Maps `frame` at page `page` of `range` (replacing what is there); populated before it returns.
  virtual absl::Status Map(DeviceRange& range, std::uint64_t page, std::uint32_t frame) = 0;
  /// Makes the page inaccessible.
  virtual absl::Status Unmap(DeviceRange& range, std::uint64_t page) = 0;

  /// Maps `frame` read-only at a host address, page_bytes long, replacing what is there. Errors:
  /// Unimplemented (not host_accessible), those of the system.
  virtual absl::Status MapForReading(std::uint32_t /*frame*/, std::byte* /*address*/) {
    return absl::UnimplementedError("the processor does not address frames of this device");
  }

  /// CopyIn and CopyOut enqueue a copy of one page. They never block for the copy. REQUIRES: `host`
  /// stays valid until `done`.
  virtual void CopyIn(std::span<const std::byte> host,
                      std::uint32_t frame,
                      StartedFn started,
                      DoneFn done) = 0;
  void CopyIn(std::span<const std::byte> host, std::uint32_t frame, DoneFn done) {
    CopyIn(host, frame, StartedFn(), std::move(done));
  }
  virtual void CopyOut(std::uint32_t frame, std::span<std::byte> host, DoneFn done) = 0;
  /// Gives every byte of the frame the value; `done` may run before it returns. REQUIRES: no copy
  /// of the frame is on its way.
  virtual void Fill(std::uint32_t frame, std::uint8_t value, DoneFn done) = 0;

  /// Makes copies from and to the host memory run beside the caller, at the speed of the link.
  /// REQUIRES: whole pages of the system, registered once; the memory stays mapped as it is until
  /// UnregisterHost or the end of the device.
  virtual absl::Status RegisterHost(std::span<std::byte> memory) = 0;
  /// Ends a registration. Waits for all running work of the device. REQUIRES: a span that was
  /// registered.
  virtual void UnregisterHost(std::span<std::byte> memory) = 0;

  /// Makes a stream of the device's own. Errors: ResourceExhausted (threads).
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream() = 0;
  /// Adopts the user's own stream of the device. The result never synchronises or destroys it. The
  /// user's stream outlives the last notification. Errors: InvalidArgument (the device has none).
  virtual absl::StatusOr<std::unique_ptr<Stream>> AdoptStream(void* stream) = 0;

  /// Gives frames back, or takes them again, see numa::Arena. Returns the number of frames
  /// afterwards.
  virtual absl::StatusOr<std::uint32_t> Resize(std::uint32_t frames) = 0;
  virtual std::uint64_t allocated_bytes() const = 0;
  virtual double huge_page_share() const = 0;
  /// Ok, or the error after which the device answers no more.
  virtual absl::Status Health() const { return absl::OkStatus(); }
};

}  // namespace sluice::device
