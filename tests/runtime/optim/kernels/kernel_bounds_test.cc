#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/optim/kernels/kernel.h"
#include "tests/runtime/optim/kernels/reference_update.h"
#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {
namespace {

/// A copy of some bytes before a page that nobody may touch.
class BeforeTheEnd {
 public:
  explicit BeforeTheEnd(const std::vector<std::uint8_t>& bytes)
      : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
        mapped_((bytes.size() / page_ + 2) * page_) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
    void* const map = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    EXPECT_NE(map, MAP_FAILED);
    map_ = static_cast<std::uint8_t*>(map);
    EXPECT_EQ(mprotect(map_ + mapped_ - page_, page_, PROT_NONE), 0);
    data_ = map_ + mapped_ - page_ - bytes.size();
    std::copy(bytes.begin(), bytes.end(), data_);
  }
  BeforeTheEnd(const BeforeTheEnd&) = delete;
  BeforeTheEnd& operator=(const BeforeTheEnd&) = delete;
  ~BeforeTheEnd() { munmap(map_, mapped_); }

  std::uint8_t* data() const { return data_; }
  bool Holds(const std::vector<std::uint8_t>& bytes) const {
    return std::equal(bytes.begin(), bytes.end(), data_);
  }

 private:
  std::size_t page_, mapped_;
  std::uint8_t* map_ = nullptr;
  std::uint8_t* data_ = nullptr;
};

TEST(KernelBoundsTest, NothingPastTheEndOfARunIsRead) {
  std::mt19937_64 random(71);
  for (const KernelSpec& spec : AllSpecs()) {
    if (spec.state == StateType::k8Bit) continue;  // the scales of 8-bit states are another run
    const std::size_t count = 1 + random() % 200;
    SCOPED_TRACE(NameOf(spec) + " " + std::to_string(count));
    const TensorRun start = TensorRun::Random(spec, count, random());
    const KernelScalars scalars = UsualScalars(spec.optimizer);
    TensorRun expected = start;
    KernelArgs args = expected.Args(scalars, {}, 0, count);
    ReferenceUpdate(spec, args);
    for (const SimdTarget target : SupportedSimdTargets()) {
      const BeforeTheEnd parameters(start.parameters), gradients(start.gradients), copy(start.copy),
          first(start.states[0]), second(start.states[1]);
      args.parameters = parameters.data();
      args.gradients = gradients.data();
      args.copy = copy.data();
      args.states[0].values = first.data();
      args.states[1].values = second.data();
      (*FindKernel(spec, target))(args);
      EXPECT_TRUE(parameters.Holds(expected.parameters)) << ToString(target);
      EXPECT_TRUE(first.Holds(expected.states[0])) << ToString(target);
      EXPECT_TRUE(second.Holds(expected.states[1])) << ToString(target);
      EXPECT_TRUE(copy.Holds(expected.copy)) << ToString(target);
    }
  }
}

}  // namespace
}  // namespace sluice::optim
