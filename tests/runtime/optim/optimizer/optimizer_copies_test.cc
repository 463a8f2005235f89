// Copies of parameters that no update writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "tests/runtime/optim/kernels/reference_update.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::optim {
namespace {

using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::RuntimeFixture;
using sluice::testing::TempDirectory;

// dram has 32 pages of 1024 fp32 elements. A parameter of 20000 has 20 pages for each tensor, and
// 10 for its copy.
const std::vector<std::vector<std::size_t>> kCopied = {{1, 255, 5000}, {20000}, {300, 1025}};

class OptimizerCopiesTest : public ::testing::Test {
 protected:
  RuntimeFixture runtime_;
};

TEST_F(OptimizerCopiesTest, CopiesAreRefreshedAsAnUpdateWritesThem) {
  for (const CopyType type : {CopyType::kBf16, CopyType::kFp16}) {
    for (const Storage place : {Storage::kMemory, Storage::kTensor}) {
      runtime_.Start();
      PagedModel model(runtime_, {.spec = {.copy = type}, .groups = kCopied, .copies = place});
      ASSERT_THAT(model.Step(), IsOk());
      model.ReferenceStep(1);
      model.SpoilCopies();
      ASSERT_NE(model.Paged(), model.Reference());
      for (std::size_t i = 0; i < model.groups(); ++i) {
        ASSERT_THAT(model.optimizer().RefreshCopies(model.group(i)), IsOk());
      }
      EXPECT_EQ(model.Paged(), model.Reference());
    }
  }
}

TEST_F(OptimizerCopiesTest, OnlyTheCopiesOfTheGroupAreRefreshed) {
  runtime_.Start();
  PagedModel model(runtime_, {.spec = {.copy = CopyType::kBf16}, .groups = {{5000}, {300}}});
  ASSERT_THAT(model.Step(), IsOk());
  model.SpoilCopies();
  const auto spoilt = model.Paged();
  ASSERT_THAT(model.optimizer().RefreshCopies(model.group(1)), IsOk());
  const auto after = model.Paged();
  const std::size_t of_each = after.size() / 2;
  for (std::size_t i = 0; i < of_each; ++i) EXPECT_EQ(after[i], spoilt[i]);
  EXPECT_NE(after.back(), spoilt.back());
}

TEST_F(OptimizerCopiesTest, AfterALoadCopiesAreThoseOfTheLoadedParameters) {
  for (const CopyType type : {CopyType::kBf16, CopyType::kFp16}) {
    for (const Storage place : {Storage::kMemory, Storage::kTensor}) {
      runtime_.Start();
      const TempDirectory directory;
      PagedModel model(
          runtime_,
          {.spec = {.state = StateType::k8Bit, .copy = type}, .groups = kCopied, .copies = place});
      ASSERT_THAT(model.Step(), IsOk());
      model.ReferenceStep(1);
      ASSERT_THAT(model.optimizer().Save(directory.path()), IsOk());
      ASSERT_THAT(model.Step(), IsOk());
      ASSERT_NE(model.Paged(), model.Reference());
      ASSERT_THAT(model.optimizer().Load(directory.path()), IsOk());
      EXPECT_EQ(model.Paged(), model.Reference());
    }
  }
}

/// A parameter and its copy that share a segment, so that pages cut each of them elsewhere.
TEST_F(OptimizerCopiesTest, PagesMayCutCopiesAnywhere) {
  runtime_.Start();
  constexpr std::int64_t kCount = 7001;
  const std::vector<TensorSpec> specs = {
      {.name = "before", .shape = {33}},
      {.name = "p", .shape = {kCount}},
      {.name = "between", .shape = {57}, .dtype = DType::kBF16},
      {.name = "copy", .shape = {kCount}, .dtype = DType::kBF16}};
  const auto tensors = runtime_->CreateTensors(specs).value();
  std::vector<float> values(kCount);
  std::vector<std::uint16_t> expected(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1.0f / static_cast<float>(i + 3);
    expected[i] = NearestBf16(values[i]);
  }
  for (std::size_t at = 0; at < values.size(); at += 100) {
    const auto some = std::span(values).subspan(at, std::min<std::size_t>(100, kCount - at));
    runtime_.Write(tensors[1], std::as_bytes(some), at * sizeof(float));
  }
  // The pages are written from the end, so that neighbours in the tensor are no neighbours in
  // memory.
  const std::vector<std::byte> some_bytes(100, std::byte{1});
  for (std::size_t at = 2 * kCount - 100; at > 4096; at -= 100) {
    runtime_.Write(tensors[3], some_bytes, at);
  }
  const auto optimizer = OffloadedOptimizer::Create(*runtime_, {}).value();
  const GroupId group = optimizer->AddGroup({.name = "g", .parameters = {tensors[1]}}).value();
  ASSERT_THAT(optimizer->BindCopy(tensors[1], {.tensor = tensors[3]}), IsOk());
  ASSERT_THAT(optimizer->RefreshCopies(group), IsOk());
  const std::vector<std::byte> copy = runtime_.Read(tensors[3]);
  const auto bytes = std::as_bytes(std::span(expected));
  EXPECT_TRUE(std::equal(copy.begin(), copy.end(), bytes.begin(), bytes.end()));
  EXPECT_EQ(runtime_.Read(tensors[2]), std::vector<std::byte>(114));
}

/// Ends of a step whose updates have their pages already.
enum class Ending { kSkip, kSaveAndSkip, kDestruction };

class UnusedUpdatesTest : public OptimizerCopiesTest, public ::testing::WithParamInterface<Ending> {
 protected:
  static constexpr std::int64_t kCount = 1000;  ///< one part, which covers the page of its copy

  void SetUp() override {
    runtime_.options.hbm_bytes = Bytes(0);
    runtime_.options.policy = "lru";
    runtime_.Start();
    const std::vector<TensorSpec> specs = {
        {.name = "p", .shape = {kCount}},
        {.name = "copy", .shape = {kCount}, .dtype = DType::kBF16},
        {.name = "gradient", .shape = {kCount}},
        {.name = "other", .shape = {RuntimeFixture::kPage * 64}, .dtype = DType::kU8}};
    // Each has pages of its own.
    for (const TensorSpec& spec : specs) tensors_.push_back(runtime_->CreateTensor(spec).value());
    runtime_.Write(tensors_[3], std::vector<std::byte>(RuntimeFixture::kPage * 64, std::byte{7}));
    const OptimizerOptions options{.clip_norm = 1, .skip_not_finite = true};
    optimizer_ = OffloadedOptimizer::Create(*runtime_, options).value();
    group_ = optimizer_->AddGroup({.name = "g", .parameters = {tensors_[0]}}).value();
    ASSERT_THAT(optimizer_->BindGradient(tensors_[0], {.tensor = tensors_[2]}), IsOk());
    ASSERT_THAT(optimizer_->BindCopy(tensors_[0], {.tensor = tensors_[1]}), IsOk());
    ASSERT_THAT(optimizer_->RefreshCopies(group_), IsOk());
  }

  void SetGradient(float value) {
    const std::vector<float> values(kCount, value);
    runtime_.Write(tensors_[2], std::as_bytes(std::span(values)));
  }

  void BeginUpdates() {
    static_cast<void>(runtime_.Read(tensors_[3]));  // so that copies leave dram
    if (GetParam() == Ending::kSaveAndSkip) {
      save_ = optimizer_->StartSave(directory_.path()).value();
    }
    ASSERT_THAT(optimizer_->GradientReady(group_), IsOk());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that pages come
  }

  void EndUpdates() {
    if (GetParam() == Ending::kDestruction) return optimizer_.reset();
    if (save_) {
      ASSERT_THAT(save_->Wait(), IsOk());
    }
    absl::StatusOr<StepHandle> step = optimizer_->Step();
    ASSERT_THAT(step, IsOk());
    const auto done = step->Wait();
    ASSERT_THAT(done, IsOk());
    EXPECT_TRUE(done->skipped);
  }

  std::vector<TensorId> tensors_;
  std::unique_ptr<OffloadedOptimizer> optimizer_;
  GroupId group_;
  const TempDirectory directory_;
  std::optional<SaveHandle> save_;
};

TEST_P(UnusedUpdatesTest, CopiesStay) {
  SetGradient(0.5f);
  ASSERT_THAT(optimizer_->GradientReady(group_), IsOk());
  ASSERT_THAT(optimizer_->Step()->Wait(), IsOk());
  const std::vector<std::byte> copy = runtime_.Read(tensors_[1]);
  ASSERT_NE(copy, std::vector<std::byte>(copy.size()));
  SetGradient(INFINITY);
  BeginUpdates();
  EndUpdates();
  EXPECT_TRUE(runtime_.Read(tensors_[1]) == copy);
}

INSTANTIATE_TEST_SUITE_P(All,
                         UnusedUpdatesTest,
                         ::testing::Values(Ending::kSkip,
                                           Ending::kSaveAndSkip,
                                           Ending::kDestruction));

TEST_F(OptimizerCopiesTest, CopiesAreNotRefreshedDuringAStep) {
  runtime_.Start();
  PagedModel model(runtime_, {.spec = {.copy = CopyType::kBf16}, .groups = {{5000}, {300}}});
  OffloadedOptimizer& optimizer = model.optimizer();
  ASSERT_THAT(optimizer.GradientReady(model.group(0)), IsOk());
  EXPECT_THAT(optimizer.RefreshCopies(model.group(1)),
              IsStatus(absl::StatusCode::kFailedPrecondition, "under way"));
  EXPECT_THAT(optimizer.GradientReady(model.group(1)), IsOk());
  ASSERT_THAT(optimizer.Step().value().Wait(), IsOk());
  EXPECT_THAT(optimizer.RefreshCopies(model.group(1)), IsOk());
  EXPECT_THAT(optimizer.RefreshCopies(GroupId{3}),
              IsStatus(absl::StatusCode::kInvalidArgument, "no group 3, of 2"));
}

}  // namespace
}  // namespace sluice::optim
