#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::HasCode;
using testing::IsOk;
using testing::RuntimeFixture;

/// Tensors of which dram holds one at a time.
class HandOverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    runtime_.options.hbm_bytes = Bytes();
    runtime_.Start();
    for (const std::string name : {"a", "b", "c"}) {
      const auto bytes = std::size_t{RuntimeFixture::kDramPages * 5 / 8} * RuntimeFixture::kPage;
      contents_.emplace_back(bytes, std::byte(name[0]));
      tensors_.push_back(runtime_.Make(name, bytes));
      runtime_.Write(tensors_.back(), contents_.back());
    }
  }
  /// Hands leases over for one of the whole tensor.
  absl::StatusOr<std::vector<Lease>> Next(std::size_t tensor, std::vector<Lease> before) {
    op_ = runtime_->BeginOp({.name = "op " + std::to_string(tensor)});
    const Access access{.tensor = tensors_[tensor]};
    Ticket ticket = op_.AcquireAll({&access, 1}, std::move(before));
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    if (absl::Status waited = ticket.Wait(soon); !waited.ok()) return waited;
    return ticket.Take();
  }
  /// Whether the frames of all leases have come back.
  bool NothingIsHeld() {
    bool all = true;
    for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
      const auto leases = Next(tensor, {});
      all = all && leases.ok();
    }
    return all;
  }

  RuntimeFixture runtime_;
  std::vector<std::vector<std::byte>> contents_;
  std::vector<TensorId> tensors_;
  Op op_;
};

TEST_F(HandOverTest, TheNextLeasesHaveTheFramesOfThoseBefore) {
  std::vector<Lease> leases;
  for (int i = 0; i < 9; ++i) {
    const std::size_t tensor = static_cast<std::size_t>(i) % 3;
    auto next = Next(tensor, std::move(leases));
    ASSERT_THAT(next, IsOk());
    leases = *std::move(next);
    const std::span<std::byte> bytes = leases.front().Contiguous();
    EXPECT_EQ(std::vector(bytes.begin(), bytes.end()), contents_[tensor]);
  }
  leases.clear();
  EXPECT_TRUE(NothingIsHeld());
}

TEST_F(HandOverTest, LeasesThatAreGoneAreNoHindrance) {
  auto leases = Next(0, {});
  ASSERT_THAT(leases, IsOk());
  leases->front().Release();
  leases->emplace_back();
  EXPECT_THAT(Next(1, *std::move(leases)), IsOk());
}

TEST_F(HandOverTest, ARequestThatIsRefusedGivesThemBackToo) {
  const Access unknown{.tensor = TensorId{12345}};
  auto leases = Next(0, {});
  ASSERT_THAT(leases, IsOk());
  Ticket ticket = op_.AcquireAll({&unknown, 1}, *std::move(leases));
  EXPECT_THAT(ticket.Take(), HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_TRUE(NothingIsHeld());

  leases = Next(0, {});
  ASSERT_THAT(leases, IsOk());
  EXPECT_THAT(op_.AcquireAll({}, *std::move(leases)).Take(), IsOk()) << "asks for nothing";
  EXPECT_TRUE(NothingIsHeld());

  leases = Next(0, {});
  ASSERT_THAT(leases, IsOk());
  Op ended;
  const Access access{.tensor = tensors_[1]};
  ticket = ended.AcquireAll({&access, 1}, *std::move(leases));
  EXPECT_THAT(ticket.Take(), HasCode(absl::StatusCode::kCancelled));
  EXPECT_TRUE(NothingIsHeld());
}

TEST_F(HandOverTest, LeasesOfAnotherRuntimeGoBackToIt) {
  RuntimeFixture other;
  other.Start();
  const TensorId tensor = other.Make("t", RuntimeFixture::kPage);
  const Access write{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kDram0};
  std::vector<Lease> leases;
  leases.push_back(other.Acquire(write).value());
  EXPECT_THAT(Next(0, std::move(leases)), IsOk());
  EXPECT_THAT(other.Acquire(write), IsOk());
}

TEST_F(HandOverTest, AWrittenPageKeepsItsBytes) {
  const Access write{.tensor = tensors_[0], .mode = AccessMode::kOverwrite};
  Op op = runtime_->BeginOp({.name = "writes"});
  auto leases = op.AcquireAll({write}).Take();
  ASSERT_THAT(leases, IsOk());
  for (std::byte& byte : leases->front().Contiguous()) byte = std::byte{'x'};
  auto next = Next(1, *std::move(leases));
  ASSERT_THAT(next, IsOk());
  auto back = Next(0, *std::move(next));
  ASSERT_THAT(back, IsOk());
  for (const std::byte byte : back->front().Contiguous()) ASSERT_EQ(byte, std::byte{'x'});
}

TEST_F(HandOverTest, AChildGivesNothingBack) {
  auto leases = Next(0, {});
  ASSERT_THAT(leases, IsOk());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Access access{.tensor = tensors_[1]};
    const auto taken = op_.AcquireAll({&access, 1}, *std::move(leases)).Take();
    _exit(absl::IsFailedPrecondition(taken.status()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(leases->front().Contiguous()[0], std::byte{'a'});
  EXPECT_THAT(Next(1, *std::move(leases)), IsOk());
}

}  // namespace
}  // namespace sluice
