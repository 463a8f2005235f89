#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "sluice/runtime.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice::engine {
namespace {

using testing::IsOk;
using testing::IsStatus;
using testing::RuntimeFixture;

TEST(TensorSpecCheckTest, ImpossibleTensorsAreRefusedAndNamed) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  RuntimeFixture runtime;
  runtime.Start();
  const auto create = [&](const TensorSpec& spec) { return runtime->CreateTensor(spec).status(); };
  EXPECT_THAT(create({.name = "t", .shape = {4, 0}}), IsStatus(kInvalid, "'t' has an extent of 0"));
  EXPECT_THAT(create({.name = "t", .shape = {-4}}), IsStatus(kInvalid, "'t' has an extent of -4"));
  EXPECT_THAT(create({.name = "t", .shape = {std::int64_t{1} << 40, std::int64_t{1} << 40}}),
              IsStatus(kInvalid, "'t' is larger than 1 PiB"));
  EXPECT_THAT(create({.name = "t", .shape = {4}, .dtype = static_cast<DType>(77)}),
              IsStatus(kInvalid, "'t' has a dtype of 77, which is none"));
  EXPECT_THAT(create({.name = "t", .shape = {4}, .kind = static_cast<TensorKind>(77)}),
              IsStatus(kInvalid, "'t' has a kind of 77, which is none"));
  EXPECT_THAT(create({.name = "t", .shape = {4}, .lowest = static_cast<TierKind>(77)}),
              IsStatus(kInvalid, "'t' has a lowest tier of 77, which is none"));
  EXPECT_THAT(runtime->CreateTensors({}).status(), IsStatus(kInvalid, "no tensors to create"));
  const std::vector<TensorSpec> apart = {{.name = "up", .shape = {4}, .lowest = TierKind::kDram},
                                         {.name = "down", .shape = {4}}};
  EXPECT_THAT(runtime->CreateTensors(apart).status(),
              IsStatus(kInvalid, "'up' and 'down' share a segment"));
  EXPECT_THAT(create({.name = "t", .shape = {4}}), IsOk());
}

}  // namespace
}  // namespace sluice::engine
