#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::Pattern;
using testing::RuntimeFixture;
using testing::StoreFaults;

/// dram full of written pages, some of which are being cleaned: their writes do not end before
/// faults_.Release().
class HastenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    runtime_.options.hbm_bytes = Bytes();
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.Start();
    ASSERT_FALSE(HasFatalFailure());
    faults_.Hold();
    tensor_ = runtime_.Make("t", bytes_.size());
    runtime_.Write(tensor_, bytes_);
    faults_.WaitForHeld(1);
    runtime_->GetStats();  // the answer comes after all that the writes gave rise to
    ASSERT_TRUE(faults_.hastened().empty()) << "nobody waits";
  }

  void TearDown() override { faults_.Release(); }

  /// A ticket of a lane of its own for one page.
  Ticket Ask(std::uint64_t page, AccessMode mode, TensorId tensor) {
    ops_.push_back(runtime_->BeginOp({.name = "asks", .lane = "lane" + std::to_string(page)}));
    const Access access{
        .tensor = tensor, .range = {page * kPage, kPage}, .mode = mode, .tier = kDram0};
    return ops_.back().AcquireAll({&access, 1});
  }

  const std::vector<std::byte> bytes_ = Pattern(1, RuntimeFixture::kDramPages* kPage);
  StoreFaults faults_;
  RuntimeFixture runtime_;
  TensorId tensor_;
  std::vector<Op> ops_;
};

TEST_F(HastenTest, AWriteLeaseHastensThePageOutItWaitsFor) {
  const io::PageIdentity cleaned = faults_.written().front();
  Ticket ticket = Ask(cleaned.page, AccessMode::kReadWrite, tensor_);
  ASSERT_TRUE(faults_.WaitForHastened(cleaned));
  EXPECT_EQ(faults_.hastened().size(), 1u);
  EXPECT_FALSE(ticket.Ready());
  faults_.Release();
  EXPECT_THAT(ticket.Take(), IsOk());
  EXPECT_EQ(runtime_.Read(tensor_), bytes_);
}

TEST_F(HastenTest, ATicketThatNeedsTheFrameOfACleanedPageHastensOne) {
  const std::vector<io::PageIdentity> cleaned = faults_.written();
  std::vector<std::vector<Lease>> held;
  for (std::uint64_t page = 0; page < RuntimeFixture::kDramPages; ++page) {
    const auto is_page = [page](const io::PageIdentity& each) { return each.page == page; };
    if (std::any_of(cleaned.begin(), cleaned.end(), is_page)) continue;
    auto leases = Ask(page, AccessMode::kRead, tensor_).Take();
    ASSERT_THAT(leases, IsOk());
    held.push_back(*std::move(leases));
  }
  ASSERT_TRUE(faults_.hastened().empty()) << "pages are read while they are cleaned";
  const TensorId other = runtime_.Make("other", kPage);
  Ticket ticket = Ask(0, AccessMode::kOverwrite, other);
  ASSERT_TRUE(faults_.WaitForHastened(cleaned.front()));
  EXPECT_EQ(faults_.hastened().size(), 1u);
  faults_.Release();
  EXPECT_THAT(ticket.Take(), IsOk());
}

TEST_F(HastenTest, AnEvictionThatAnOpWaitsForIsHastenedFromTheStart) {
  const std::size_t cleaning = faults_.written().size();
  const TensorId other = runtime_.Make("other", kPage);
  Ticket ticket = Ask(0, AccessMode::kOverwrite, other);
  faults_.WaitForHeld(cleaning + 1);
  const io::PageIdentity evicted = faults_.written().at(cleaning);
  ASSERT_TRUE(faults_.WaitForHastened(evicted));
  EXPECT_EQ(faults_.hastened(), std::vector<io::PageIdentity>{evicted});
  faults_.Release();
  EXPECT_THAT(ticket.Take(), IsOk());
  EXPECT_EQ(runtime_.Read(tensor_), bytes_);
}

}  // namespace
}  // namespace sluice
