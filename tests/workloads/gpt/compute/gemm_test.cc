#include "workloads/gpt/compute/gemm.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <vector>

#include "fmt/format.h"

namespace sluice::gpt {
namespace {

constexpr unsigned kSeed = 20261127;

std::unique_ptr<ComputeThreads> Threads(int count) { return ComputeThreads::Create(count).value(); }

std::string Name(const GemmShape& shape) {
  return fmt::format("{} x {} x {}, transposed {} {}, seed {}",
                     shape.m,
                     shape.n,
                     shape.k,
                     shape.transpose_a,
                     shape.transpose_b,
                     kSeed);
}

/// Several tiles with remainders, one tile, less than a vector; each operand either way.
std::vector<GemmShape> Shapes() {
  constexpr int kExtents[][3] = {{512, 384, 192}, {301, 511, 77}, {128, 192, 64}, {7, 3, 5}};
  std::vector<GemmShape> shapes;
  for (const auto& [m, n, k] : kExtents) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) shapes.push_back({m, n, k, a, b, 1});
    }
  }
  return shapes;
}

std::vector<float> RandomFloats(std::size_t count, std::mt19937& random) {
  std::vector<float> values(count);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& value : values) value = uniform(random);
  return values;
}

/// A product whose three matrices begin `shift` elements into their memory.
class Operands {
 public:
  Operands(const GemmShape& shape, std::size_t shift) : shape_(shape), shift_(shift) {
    std::mt19937 random(kSeed);
    a_ = Shifted(RandomFloats(Elements(shape.m, shape.k), random));
    b_ = Shifted(RandomFloats(Elements(shape.k, shape.n), random));
    out_ = Shifted(RandomFloats(Elements(shape.m, shape.n), random));
  }

  std::vector<float> Multiply(ComputeThreads& threads, Accumulate accumulate) const {
    std::vector<float> out = out_;
    Gemm(threads,
         shape_,
         0.5f,
         {a_.data() + shift_, a_stride()},
         {b_.data() + shift_, b_stride()},
         accumulate,
         {out.data() + shift_, shape_.n});
    return {out.begin() + static_cast<std::ptrdiff_t>(shift_), out.end()};
  }

  /// One element of the result, in double precision.
  double Exact(int row, int column, Accumulate accumulate) const {
    double sum = 0;
    for (int i = 0; i < shape_.k; ++i) {
      const int a = shape_.transpose_a ? i * a_stride() + row : row * a_stride() + i;
      const int b = shape_.transpose_b ? column * b_stride() + i : i * b_stride() + column;
      sum += double{a_[At(a)]} * double{b_[At(b)]};
    }
    const double old = accumulate == Accumulate::kYes ? out_[At(row * shape_.n + column)] : 0;
    return old + 0.5 * sum;
  }

 private:
  static std::size_t Elements(int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }
  std::vector<float> Shifted(std::vector<float> values) const {
    values.insert(values.begin(), shift_, 0.0f);
    return values;
  }
  std::size_t At(int index) const { return shift_ + static_cast<std::size_t>(index); }
  int a_stride() const { return shape_.transpose_a ? shape_.m : shape_.k; }
  int b_stride() const { return shape_.transpose_b ? shape_.k : shape_.n; }

  const GemmShape shape_;
  const std::size_t shift_;
  std::vector<float> a_, b_, out_;
};

TEST(GemmTest, IsTheProduct) {
  const auto threads = Threads(3);
  for (const GemmShape& shape : Shapes()) {
    for (const Accumulate accumulate : {Accumulate::kNo, Accumulate::kYes}) {
      const Operands operands(shape, 0);
      const std::vector<float> out = operands.Multiply(*threads, accumulate);
      double error = 0;
      for (int row = 0; row < shape.m; row += 3) {
        for (int column = 0; column < shape.n; ++column) {
          const float made = out[static_cast<std::size_t>(row * shape.n + column)];
          error = std::max(error, std::abs(made - operands.Exact(row, column, accumulate)));
        }
      }
      EXPECT_LT(error, 1e-4) << Name(shape);
    }
  }
}

TEST(GemmTest, HasTheSameBitsForAnyNumberOfThreadsAndAnyAddress) {
  const auto alone = Threads(1);
  for (const GemmShape& shape : Shapes()) {
    const std::vector<float> expected = Operands(shape, 0).Multiply(*alone, Accumulate::kYes);
    for (const int count : {1, 2, 3, 5}) {
      const auto threads = Threads(count);
      for (const std::size_t shift : {0U, 1U, 16U}) {
        EXPECT_TRUE(Operands(shape, shift).Multiply(*threads, Accumulate::kYes) == expected)
            << Name(shape) << ", " << count << " threads, " << shift << " elements on";
      }
    }
  }
}

std::atomic<int> alarms = 0;

/// Counts alarms, one every 200 us, on the stack of the thread that is interrupted.
class Alarms {
 public:
  Alarms() {
    struct sigaction action {};
    action.sa_handler = [](int) { ++alarms; };
    sigaction(SIGALRM, &action, &before_);
    Every(200);
  }
  ~Alarms() {
    Every(0);
    sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  static void Every(suseconds_t microseconds) {
    const itimerval timer{.it_interval = {0, microseconds}, .it_value = {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  struct sigaction before_ {};
};

/// Products of which oneDNN packs an operand.
TEST(GemmTest, SignalsOfTheProcessSpoilNothing) {
  const auto threads = Threads(1);
  const Alarms running;
  for (const GemmShape& shape :
       {GemmShape{128, 192, 256, false, false, 1}, GemmShape{128, 64, 512, false, true, 1}}) {
    const Operands operands(shape, 0);
    const std::vector<float> expected = operands.Multiply(*threads, Accumulate::kYes);
    const int before = alarms;
    for (int i = 0; i < 3000 || alarms < before + 1000; ++i) {
      ASSERT_TRUE(operands.Multiply(*threads, Accumulate::kYes) == expected) << Name(shape);
    }
  }
}

TEST(ComputeThreadsTest, EachTaskRunsOnce) {
  for (const int count : {1, 2, 3, 5}) {
    const auto threads = Threads(count);
    for (const std::size_t tasks : {0U, 1U, 2U, 4U, 100U}) {
      std::vector<std::atomic<int>> runs(tasks);
      threads->ForEach(tasks, [&](std::size_t i) { ++runs[i]; });
      for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1) << count << " threads";
    }
  }
}

/// A distance of rows below their length is refused, as a product without memory is.
TEST(GemmTest, AProductThatTheLibraryRefusesIsAFailureOfTheThreads) {
  const auto threads = Threads(2);
  std::vector<float> values(256 * 256);
  for (const int extent : {4, 256}) {
    EXPECT_TRUE(threads->failure().ok());
    const GemmShape shape{.m = extent, .n = extent, .k = extent};
    const MatrixIn in{values.data(), extent};
    Gemm(*threads, shape, 1, in, in, Accumulate::kNo, {values.data(), extent});
    EXPECT_TRUE(threads->failure().ok()) << threads->failure();
    Gemm(*threads, shape, 1, {values.data(), 1}, in, Accumulate::kNo, {values.data(), extent});
    EXPECT_EQ(threads->failure().code(), absl::StatusCode::kInternal);
    EXPECT_NE(
        threads->failure().message().find(fmt::format("oneDNN refuses a product of {}", extent)),
        absl::string_view::npos)
        << threads->failure();
    threads->ForgetFailure();
  }
}

}  // namespace
}  // namespace sluice::gpt
