#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "tests/workloads/gpt/gpt_fixture.h"
#include "tests/workloads/gpt/reference_gpt.h"

namespace sluice::gpt {
namespace {

/// A tiny model that has trained for some steps, so that no gradient is near zero by construction.
class Gradient : public testing::Test {
 protected:
  void SetUp() override {
    train_.learning_rate = 0.03;
    data_.emplace(TinyDataset(train_));
    absl::StatusOr<std::unique_ptr<Trainer>> trainer =
        Trainer::Create(TinyModel(), train_, *data_, memory_);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    trainer_ = *std::move(trainer);
    for (int i = 0; i < 12; ++i) ASSERT_TRUE(trainer_->Step().ok());
  }

  ReferenceGpt Reference() {
    ReferenceGpt reference(TinyModel());
    const State state = StateOf(*trainer_);
    for (const TensorSpec& spec : trainer_->ParameterSpecs()) {
      const std::vector<float>& values = state.at(spec.name);
      reference.parameters()[spec.name].assign(values.begin(), values.end());
    }
    return reference;
  }

  TrainConfig train_ = TinyTrain();
  std::optional<Dataset> data_;
  GradientTap memory_;
  std::unique_ptr<Trainer> trainer_;
};

/// Central difference of the loss by one element.
double Difference(ReferenceGpt& reference, double& element, const Batch& batch) {
  constexpr double kStep = 1e-5;
  const double old = element;
  element = old + kStep;
  const double above = reference.Loss(batch);
  element = old - kStep;
  const double below = reference.Loss(batch);
  element = old;
  return (above - below) / (2 * kStep);
}

/// All elements of small tensors, a random choice of large ones.
std::vector<std::size_t> ElementsToTry(std::size_t count, std::mt19937_64& random) {
  constexpr std::size_t kMost = 40;
  std::vector<std::size_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = i;
  if (count <= kMost) return all;
  std::shuffle(all.begin(), all.end(), random);
  all.resize(kMost);
  return all;
}

TEST_F(Gradient, MatchesFiniteDifferencesInDoubleForEveryTensor) {
  constexpr std::uint64_t kSeed = 3;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  ReferenceGpt reference = Reference();
  const Batch batch = data_->TrainBatch(trainer_->step());
  const absl::StatusOr<StepResult> step = trainer_->Step();
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_NEAR(step->loss, reference.Loss(batch), 1e-5);
  ASSERT_EQ(memory_.gradients().size(), reference.parameters().size());
  for (const auto& [name, gradient] : memory_.gradients()) {
    std::vector<double>& parameter = reference.parameters().at(name);
    ASSERT_EQ(gradient.size(), parameter.size()) << name;
    double largest = 0;
    for (const float g : gradient) largest = std::max(largest, std::abs(double{g}));
    EXPECT_GT(largest, 1e-5) << name;
    for (const std::size_t i : ElementsToTry(gradient.size(), random)) {
      const double expected = Difference(reference, parameter[i], batch);
      EXPECT_NEAR(gradient[i], expected, 1e-4 * largest + 1e-7) << name << "[" << i << "]";
    }
  }
}

TEST_F(Gradient, NormIsThatOfAllGradients) {
  const absl::StatusOr<StepResult> step = trainer_->Step();
  ASSERT_TRUE(step.ok()) << step.status();
  double sum = 0;
  for (const auto& [name, gradient] : memory_.gradients()) {
    for (const float g : gradient) sum += double{g} * double{g};
  }
  EXPECT_NEAR(step->grad_norm, std::sqrt(sum), 1e-6 * std::sqrt(sum));
}

/// p, m and v after one AdamW step, in double.
void ExpectAdamW(const State& before,
                 const State& after,
                 const std::string& name,
                 const std::vector<float>& gradient,
                 const TrainConfig& train,
                 double scale,
                 double decay,
                 int update) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double g = scale * double{gradient[i]};
    const double m = train.beta1 * before.at(name + ".m")[i] + (1 - train.beta1) * g;
    const double v = train.beta2 * before.at(name + ".v")[i] + (1 - train.beta2) * g * g;
    const double step = m / (1 - std::pow(train.beta1, update)) /
                        (std::sqrt(v / (1 - std::pow(train.beta2, update))) + train.eps);
    const double p = before.at(name)[i];
    EXPECT_NEAR(after.at(name + ".m")[i], m, 1e-6 * (1 + std::abs(m))) << name << i;
    EXPECT_NEAR(after.at(name + ".v")[i], v, 1e-6 * (1 + std::abs(v))) << name << i;
    EXPECT_NEAR(after.at(name)[i], p - train.learning_rate * (step + decay * p), 2e-6) << name << i;
  }
}

TEST_F(Gradient, UpdateIsAdamWWithClippingAndDecayOfMatricesOnly) {
  const State before = StateOf(*trainer_);
  const absl::StatusOr<StepResult> step = trainer_->Step();
  ASSERT_TRUE(step.ok()) << step.status();
  const State after = StateOf(*trainer_);
  const double norm = step->grad_norm;
  const double scale = norm > train_.clip_norm ? train_.clip_norm / norm : 1.0;
  for (const TensorSpec& spec : trainer_->ParameterSpecs()) {
    const double decay = spec.shape.size() > 1 ? train_.weight_decay : 0.0;
    ExpectAdamW(before,
                after,
                spec.name,
                memory_.gradients().at(spec.name),
                train_,
                scale,
                decay,
                trainer_->step());
  }
}

TEST_F(Gradient, ValidationLossMatchesAnIndependentForward) {
  const ReferenceGpt reference = Reference();
  const double expected =
      (reference.Loss(data_->ValidationBatch(0)) + reference.Loss(data_->ValidationBatch(1))) / 2;
  const absl::StatusOr<float> loss = trainer_->Validate();
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_NEAR(*loss, expected, 1e-5);
}

}  // namespace
}  // namespace sluice::gpt
