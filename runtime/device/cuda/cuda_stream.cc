#include "runtime/device/cuda/cuda_stream.h"

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

#include "base/status.h"

namespace sluice::device {
namespace {

class CudaStreamOfDevice : public Stream {
 public:
  CudaStreamOfDevice(const CudaContextShare& share,
                     const CudaFrames& frames,
                     CudaWorker& worker,
                     CudaStream stream,
                     bool adopted)
      : share_(share), frames_(frames), worker_(worker), stream_(stream), adopted_(adopted) {}

  ~CudaStreamOfDevice() override {
    if (adopted_) return;
    Synchronize();
    const ScopedCudaContext current(share_);
    // A stream that the driver keeps is idle.
    share_.Check(share_.api().DestroyStream(stream_), "cuStreamDestroy").IgnoreError();
  }

  /// The GPU's work keeps its order on the stream, so that this call need not wait.
  void Enqueue(absl::AnyInvocable<void()> work) override { work(); }

  absl::Status Notify(DoneFn done) override {
    SLUICE_ASSIGN_OR_RETURN(const CudaEvent event, Record());
    worker_.Await(stream_, event, std::move(done));
    return absl::OkStatus();
  }

  bool CanWaitForCopies() const override {
    const ScopedCudaContext current(share_);
    return current.status().ok() && CheckNotCapturing().ok();
  }
  absl::Status WaitForCopies(std::span<const std::uint32_t> frames) override {
    std::vector<const std::byte*> targets;
    targets.reserve(frames.size());
    for (const std::uint32_t frame : frames) targets.push_back(frames_.Frame(frame).data());
    std::sort(targets.begin(), targets.end());
    const ScopedCudaContext current(share_);
    SLUICE_RETURN_IF_ERROR(current.status());
    SLUICE_RETURN_IF_ERROR(CheckNotCapturing());
    return worker_.PutBehindCopies(stream_, targets);
  }

  void Synchronize() override {
    std::promise<absl::Status> reached;
    absl::Status status = Notify([&](absl::Status done) { reached.set_value(std::move(done)); });
    if (status.ok()) status = reached.get_future().get();
    if (status.ok() || adopted_) return;
    // Without an event the driver itself is asked, which holds up its other callers.
    const ScopedCudaContext current(share_);
    share_.Check(share_.api().SynchronizeStream(stream_), "cuStreamSynchronize").IgnoreError();
  }

  bool InOwnWork() const override { return false; }
  bool adopted() const override { return adopted_; }

 private:
  absl::StatusOr<CudaEvent> Record() {
    const ScopedCudaContext current(share_);
    SLUICE_RETURN_IF_ERROR(current.status());
    SLUICE_RETURN_IF_ERROR(CheckNotCapturing());
    return worker_.Record(stream_);
  }

  /// REQUIRES: the context is current.
  absl::Status CheckNotCapturing() const {
    bool capturing = false;
    SLUICE_RETURN_IF_ERROR(
        share_.Check(share_.api().IsCapturing(stream_, &capturing), "cuStreamIsCapturing"));
    if (!capturing) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "the stream is captured into a graph: a lease cannot wait for its work; end the capture "
        "first");
  }

  const CudaContextShare& share_;
  const CudaFrames& frames_;
  CudaWorker& worker_;
  const CudaStream stream_;
  const bool adopted_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stream>> MakeCudaStream(const CudaContextShare& share,
                                                       const CudaFrames& frames,
                                                       CudaWorker& worker) {
  const ScopedCudaContext current(share);
  SLUICE_RETURN_IF_ERROR(current.status());
  CudaStream stream = nullptr;
  SLUICE_RETURN_IF_ERROR(share.Check(share.api().CreateStream(&stream), "cuStreamCreate"));
  return std::make_unique<CudaStreamOfDevice>(share, frames, worker, stream, /*adopted=*/false);
}

std::unique_ptr<Stream> AdoptCudaStream(const CudaContextShare& share,
                                        const CudaFrames& frames,
                                        CudaWorker& worker,
                                        CudaStream stream) {
  return std::make_unique<CudaStreamOfDevice>(share, frames, worker, stream, /*adopted=*/true);
}

}  // namespace sluice::device
