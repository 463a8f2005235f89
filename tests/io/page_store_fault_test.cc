#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "tests/support/faulty_engine.h"
#include "tests/support/page_buffer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_under_test.h"

namespace sluice::io {
namespace {

using testing::FaultPlan;
using testing::FaultyEngine;
using testing::PageBuffer;
using testing::StoreUnderTest;

TEST(RetryTest, OtherRequestsPassOneThatWaitsToBeTriedAgain) {
  const FaultPlan plan{.kind = FaultPlan::Kind::kError,
                       .error_number = EAGAIN,
                       .operation = 0,
                       .direction = IoDirection::kRead};
  StoreUnderTest store({.options = {.page_bytes = 4096,
                                    .slots = 2,
                                    .backoff = {.first_pause = std::chrono::milliseconds(300)}},
                        .wrap = [&](std::unique_ptr<IoEngine> upstream) {
                          return std::make_unique<FaultyEngine>(std::move(upstream), plan, 4096);
                        }});
  PageBuffer first(4096);
  PageBuffer second(4096);
  ASSERT_THAT(store.Write(0, {1, 0, 1}, first.span()), testing::IsOk());
  ASSERT_THAT(store.Write(1, {1, 1, 1}, second.span()), testing::IsOk());
  // Shared: the callback may still be inside set_value when the result is out.
  const auto done = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> read = done->get_future();
  store->Read(0, {1, 0, 1}, first.span(), [done](absl::Status status) {
    done->set_value(std::move(status));
  });
  EXPECT_THAT(store.Read(1, {1, 1, 1}, second.span()), testing::IsOk());
  EXPECT_EQ(read.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_THAT(read.get(), testing::IsOk());
}

}  // namespace
}  // namespace sluice::io
