#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "runtime/optim/kernels/kernel.h"
#include "tests/runtime/optim/kernels/reference_update.h"
#include "tests/runtime/optim/tensor_run.h"
#include "tests/support/project_paths.h"

namespace sluice::optim {
namespace {

constexpr std::size_t kElements = 2;
constexpr RoundingKey kVectorsKey{.seed = 0x0123456789abcdef, .tensor = 42, .step = 1000};

/// Index of the first element. Runs of 8-bit states begin with a block. Other runs begin anywhere:
/// here the first element has the upper half of a random word, the second the lower half of the
/// next word.
std::uint64_t FirstOf(const KernelSpec& spec) {
  return (std::uint64_t{5} << 32) + (spec.state == StateType::k8Bit ? 256 : 271);
}

using UpdateAny = std::function<void(const KernelSpec&, const KernelArgs&)>;

std::string Hex(float value) {
  std::ostringstream text;
  text << std::hexfloat << value;
  return text.str();
}

std::string ScalesOf(const TensorRun& run) {
  std::string text;
  for (const std::vector<float>& scales : run.scales) {
    for (const float scale : scales) text += " " + Hex(scale);
  }
  return text;
}

/// A line per combination and element: before, gradient, after. Scales stand at the first element.
std::string DescribeSpec(const KernelSpec& spec, const UpdateAny& update) {
  TensorRun run = TensorRun::Random(spec, kElements, 47);
  const TensorRun before = run;
  KernelArgs args = run.Args(UsualScalars(spec.optimizer), kVectorsKey, 0, kElements);
  args.element = FirstOf(spec);
  update(spec, args);
  std::string text;
  for (std::size_t i = 0; i < kElements; ++i) {
    text += NameOf(spec) + " " + std::to_string(i) + ": " + before.HexOf(i);
    if (i == 0) text += ScalesOf(before);
    text += " | " + Hex(before.gradient(i)) + " | " + run.HexOf(i);
    if (i == 0) text += ScalesOf(run);
    text += "\n";
  }
  return text;
}

std::string Describe(const UpdateAny& update) {
  std::string text;
  for (const KernelSpec& spec : AllSpecs()) text += DescribeSpec(spec, update);
  return text;
}

/// The comments that begin the file, and the table behind them.
struct VectorsFile {
  std::string comments;
  std::string table;
};

VectorsFile ReadVectors() {
  std::ifstream file(testing::ProjectFile("tests/runtime/optim/kernels/kernel_vectors.txt"));
  VectorsFile read;
  for (std::string line; std::getline(file, line);) {
    (line.starts_with('#') ? read.comments : read.table) += line + "\n";
  }
  return read;
}

TEST(KernelVectorsTest, TheTableIsWhatTheReferenceGives) {
  const std::string text = Describe(ReferenceUpdate);
  if (const char* path = std::getenv("SLUICE_WRITE_VECTORS")) {
    std::ofstream(path) << ReadVectors().comments << text;
  }
  EXPECT_EQ(ReadVectors().table, text);
}

TEST(KernelVectorsTest, EveryTargetGivesTheTable) {
  for (const SimdTarget target : SupportedSimdTargets()) {
    const auto update = [&](const KernelSpec& spec, const KernelArgs& args) {
      (*FindKernel(spec, target))(args);
    };
    EXPECT_EQ(Describe(update), ReadVectors().table) << ToString(target);
  }
}

}  // namespace
}  // namespace sluice::optim
