#include "bench/device/gemm_loop.h"

#include <vector>

#include "absl/memory/memory.h"
#include "base/status.h"
#include "base/thread.h"

namespace sluice::bench {
namespace {

class HostGemm : public Gemm {
 public:
  absl::Status Run() override {
    for (std::size_t row = 0; row < kSize; ++row) AddRow(row);
    return absl::OkStatus();
  }

 private:
  static constexpr std::size_t kSize = 256;

  void AddRow(std::size_t row) {
    for (std::size_t inner = 0; inner < kSize; ++inner) {
      const float factor = a_[row * kSize + inner];
      for (std::size_t column = 0; column < kSize; ++column) {
        out_[row * kSize + column] += factor * b_[inner * kSize + column];
      }
    }
  }

  std::vector<float> a_ = std::vector<float>(kSize * kSize, 0.5F);
  std::vector<float> b_ = a_;
  std::vector<float> out_ = a_;
};

absl::StatusOr<std::unique_ptr<Gemm>> MakeGemm(const RuntimeOptions& options) {
  if (options.device == DeviceKind::kCuda) return MakeCudaGemm(options.cuda.gpu);
  return std::make_unique<HostGemm>();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GemmLoop>> GemmLoop::Start(const RuntimeOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm, MakeGemm(options));
  // The first product loads the kernel, which copies would wait for.
  SLUICE_RETURN_IF_ERROR(gemm->Run());
  auto loop = absl::WrapUnique(new GemmLoop(std::move(gemm)));
  SLUICE_ASSIGN_OR_RETURN(loop->thread_, base::StartThread([run = loop.get()] { run->Run(); }));
  return loop;
}

GemmLoop::~GemmLoop() { Join(); }

void GemmLoop::Join() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::uint64_t> GemmLoop::Stop() {
  Join();
  SLUICE_RETURN_IF_ERROR(status_);
  return products_;
}

void GemmLoop::Run() {
  while (!stopping_ && status_.ok()) {
    status_ = gemm_->Run();
    ++products_;
  }
}

}  // namespace sluice::bench
