#include "runtime/device/cuda/cuda_stream.h"

#include <future>
#include <utility>

#include "base/status.h"

namespace sluice::device {
namespace {

class CudaOwnStream : public Stream {
 public:
  CudaOwnStream(const CudaContextShare& share, CudaWorker& worker, CudaStream stream)
      : share_(share), worker_(worker), stream_(stream) {}

  ~CudaOwnStream() override {
    Synchronize();
    const ScopedCudaContext current(share_);
    share_.api().DestroyStream(stream_);
  }

  /// What the work enqueues keeps its order on the stream, so that it need not wait itself.
  void Enqueue(absl::AnyInvocable<void()> work) override { work(); }

  void Notify(DoneFn done) override {
    absl::StatusOr<CudaEvent> event = Record();
    if (!event.ok()) return done(event.status());
    worker_.Await(stream_, *event, std::move(done));
  }

  void Synchronize() override {
    std::promise<absl::Status> reached;
    Notify([&](absl::Status status) { reached.set_value(std::move(status)); });
    if (reached.get_future().get().ok()) return;
    // Without an event the driver is asked itself, which holds up other callers of it.
    const ScopedCudaContext current(share_);
    share_.Check(share_.api().SynchronizeStream(stream_), "cuStreamSynchronize").IgnoreError();
  }

  bool InOwnWork() const override { return false; }

 private:
  absl::StatusOr<CudaEvent> Record() {
    const ScopedCudaContext current(share_);
    SLUICE_RETURN_IF_ERROR(current.status());
    bool capturing = false;
    SLUICE_RETURN_IF_ERROR(
        share_.Check(share_.api().IsCapturing(stream_, &capturing), "cuStreamIsCapturing"));
    if (capturing) {
      return absl::FailedPreconditionError(
          "the stream is captured into a graph: a lease cannot wait for its work; end the capture "
          "first");
    }
    return worker_.Record(stream_);
  }

  const CudaContextShare& share_;
  CudaWorker& worker_;
  const CudaStream stream_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stream>> MakeCudaStream(const CudaContextShare& share,
                                                       CudaWorker& worker) {
  const ScopedCudaContext current(share);
  SLUICE_RETURN_IF_ERROR(current.status());
  CudaStream stream = nullptr;
  SLUICE_RETURN_IF_ERROR(share.Check(share.api().CreateStream(&stream), "cuStreamCreate"));
  return std::make_unique<CudaOwnStream>(share, worker, stream);
}

}  // namespace sluice::device
