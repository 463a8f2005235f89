#include "tests/runtime/engine/cuda/cuda_fixture.h"

#include <utility>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::testing {

FakeCudaOptions CudaRuntimeFixture::SmallPages() {
  FakeCudaOptions options;
  options.facts.granularity = kPage;
  return options;
}

CudaRuntimeFixture::CudaRuntimeFixture(FakeCudaOptions fake)
    : fake_(std::make_unique<FakeCuda>(std::move(fake))) {
  runtime_.options.device = DeviceKind::kCuda;
  runtime_.options.page_bytes = sluice::Bytes(kPage);
  runtime_.options.hbm_bytes = sluice::Bytes(kHbmPages * kPage);
  runtime_.options.dram_bytes = sluice::Bytes(16 * kPage);
  runtime_.options.nvme_bytes = sluice::Bytes(128 * kPage);
  runtime_.hooks.load_cuda = [this]() -> absl::StatusOr<std::shared_ptr<device::CudaApi>> {
    return std::shared_ptr<device::CudaApi>(std::shared_ptr<void>(), &fake_->api());
  };
  EXPECT_EQ(fake_->api().RetainContext(0, &context_), device::kCudaSuccess);
  EXPECT_EQ(fake_->api().PushContext(context_), device::kCudaSuccess);
  EXPECT_EQ(fake_->api().CreateStream(&user_stream_), device::kCudaSuccess);
}

CudaRuntimeFixture::~CudaRuntimeFixture() {
  runtime_.Stop();
  // A dead GPU takes none of these back.
  fake_->api().DestroyStream(user_stream_);
  fake_->api().PopContext();
  fake_->api().ReleaseContext(0);
  EXPECT_THAT(fake_->Leaks(), ::testing::IsEmpty());
}

absl::Status CudaRuntimeFixture::Add(TensorId tensor, std::uint8_t value, StreamRef& stream) {
  Op op = runtime_->BeginOp({.name = "add"});
  Ticket ticket =
      op.AcquireAll({{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kHbm0}});
  SLUICE_RETURN_IF_ERROR(stream.WaitOn(ticket));
  SLUICE_ASSIGN_OR_RETURN(std::vector<Lease> leases, ticket.Take());
  EXPECT_EQ(fake_->LaunchAdd(leases.front().Contiguous(), value, user_stream_),
            device::kCudaSuccess);
  SLUICE_RETURN_IF_ERROR(stream.ReleaseAfter(std::move(leases.front())));
  return op.EndAfter(stream);
}

absl::StatusOr<std::vector<std::byte>> CudaRuntimeFixture::Bytes(TensorId tensor) {
  SLUICE_ASSIGN_OR_RETURN(const sluice::Bytes size, runtime_->SizeOfTensor(tensor));
  std::vector<std::byte> bytes(size.count());
  SLUICE_RETURN_IF_ERROR(runtime_->Read(tensor, bytes));
  return bytes;
}

}  // namespace sluice::testing
