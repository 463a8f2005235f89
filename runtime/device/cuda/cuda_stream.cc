#include "runtime/device/cuda/cuda_stream.h"

#include <future>
#include <utility>

#include "base/status.h"

namespace sluice::device {
namespace {

class CudaStreamOfDevice : public Stream {
 public:
  CudaStreamOfDevice(const CudaContextShare& share,
                     CudaWorker& worker,
                     CudaStream stream,
                     bool adopted)
      : share_(share), worker_(worker), stream_(stream), adopted_(adopted) {}

  ~CudaStreamOfDevice() override {
    if (adopted_) return;
    Synchronize();
    const ScopedCudaContext current(share_);
    share_.api().DestroyStream(stream_);
  }

  /// What the work enqueues keeps its order on the stream, so that it need not wait itself.
  void Enqueue(absl::AnyInvocable<void()> work) override { work(); }

  absl::Status Notify(DoneFn done) override {
    SLUICE_ASSIGN_OR_RETURN(const CudaEvent event, Record());
    worker_.Await(stream_, event, std::move(done));
    return absl::OkStatus();
  }

  void Synchronize() override {
    std::promise<absl::Status> reached;
    absl::Status status = Notify([&](absl::Status done) { reached.set_value(std::move(done)); });
    if (status.ok()) status = reached.get_future().get();
    if (status.ok() || adopted_) return;
    // Without an event the driver is asked itself, which holds up other callers of it.
    const ScopedCudaContext current(share_);
    share_.Check(share_.api().SynchronizeStream(stream_), "cuStreamSynchronize").IgnoreError();
  }

  bool InOwnWork() const override { return false; }
  bool adopted() const override { return adopted_; }

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
  const bool adopted_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stream>> MakeCudaStream(const CudaContextShare& share,
                                                       CudaWorker& worker) {
  const ScopedCudaContext current(share);
  SLUICE_RETURN_IF_ERROR(current.status());
  CudaStream stream = nullptr;
  SLUICE_RETURN_IF_ERROR(share.Check(share.api().CreateStream(&stream), "cuStreamCreate"));
  return std::make_unique<CudaStreamOfDevice>(share, worker, stream, /*adopted=*/false);
}

std::unique_ptr<Stream> AdoptCudaStream(const CudaContextShare& share,
                                        CudaWorker& worker,
                                        CudaStream stream) {
  return std::make_unique<CudaStreamOfDevice>(share, worker, stream, /*adopted=*/true);
}

}  // namespace sluice::device
