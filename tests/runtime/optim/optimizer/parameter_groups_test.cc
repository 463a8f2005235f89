// The groups that take part in a step, and what the step leaves of them.
#include "runtime/optim/optimizer/parameter_groups.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using sluice::testing::HasCode;
using sluice::testing::IsOk;

constexpr auto kNotComplete = absl::StatusCode::kFailedPrecondition;

class ParameterGroupsTest : public ::testing::Test {
 protected:
  ParameterGroupsTest() {
    groups_.Add({.name = "a"}, {0, 1});
    groups_.Add({.name = "b"}, {2});
  }
  ParameterGroups groups_;
};

TEST_F(ParameterGroupsTest, IdsCountFromZero) {
  EXPECT_EQ(groups_.Add({.name = "c"}, {3}).value, 2u);
  const auto found = groups_.Find({2});
  ASSERT_THAT(found.status(), IsOk());
  EXPECT_EQ((*found)->name, "c");
  EXPECT_THAT(groups_.Find({3}).status(), HasCode(absl::StatusCode::kInvalidArgument));
}

TEST_F(ParameterGroupsTest, AStepWantsEveryGroupUnlessItTakesThoseThatAreReady) {
  EXPECT_THAT(ParameterGroups().ChooseForStep({.only_ready = true}), HasCode(kNotComplete));
  EXPECT_THAT(groups_.ChooseForStep({.only_ready = true}), HasCode(kNotComplete));
  groups_[0].ready = true;
  EXPECT_THAT(groups_.ChooseForStep({}), HasCode(kNotComplete));
  EXPECT_EQ(groups_.sits_out(), (std::vector<bool>{false, false}));
  EXPECT_THAT(groups_.ChooseForStep({.only_ready = true}), IsOk());
  EXPECT_EQ(groups_.sits_out(), (std::vector<bool>{false, true}));
  // A repetition takes the groups of the first try.
  EXPECT_THAT(groups_.ChooseForStep({}), IsOk());
}

TEST_F(ParameterGroupsTest, AGroupThatSitsOutKeepsItsSums) {
  groups_[0].accumulated = groups_[1].accumulated = true;
  groups_[1].ready = true;
  ASSERT_THAT(groups_.ChooseForStep({.only_ready = true}), IsOk());
  EXPECT_EQ(groups_.EndStep(), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_TRUE(groups_[0].accumulated);
  EXPECT_FALSE(groups_[1].accumulated);
  EXPECT_FALSE(groups_[1].ready);
  EXPECT_EQ(groups_.sits_out(), (std::vector<bool>{false, false}));
}

TEST_F(ParameterGroupsTest, ADroppedStepLeavesNoGradients) {
  groups_[0].ready = groups_[0].accumulated = groups_[1].accumulated = true;
  ASSERT_THAT(groups_.ChooseForStep({.only_ready = true}), IsOk());
  groups_.DropStep();
  for (const ParameterGroup& group : groups_) {
    EXPECT_FALSE(group.ready || group.accumulated || group.sits_out) << group.name;
  }
}

TEST_F(ParameterGroupsTest, ANewGroupHasANameOfItsOwnAndParameters) {
  const std::vector<TensorId> parameters = {TensorId{1}};
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(groups_.CheckNew({.name = "c", .parameters = parameters}), IsOk());
  EXPECT_THAT(groups_.CheckNew({.name = "a", .parameters = parameters}), HasCode(kInvalid));
  EXPECT_THAT(groups_.CheckNew({.name = "c"}), HasCode(kInvalid));
  EXPECT_THAT(
      groups_.CheckNew({.name = "c", .parameters = parameters, .rates = {.learning_rate = -1}}),
      HasCode(kInvalid));
}

}  // namespace
}  // namespace sluice::optim
