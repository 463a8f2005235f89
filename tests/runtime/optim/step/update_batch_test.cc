#include "runtime/optim/step/update_batch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::optim {
namespace {

constexpr std::uint64_t kPart = 1024;

/// Number of parts of each batch, for entries of `counts` elements, all of whose parts are due.
std::vector<std::size_t> Cut(const std::vector<std::uint64_t>& counts,
                             std::size_t parts_max,
                             std::uint64_t part_elements = kPart) {
  const PartSize size{.elements = part_elements};
  std::deque<ParameterEntry> entries;
  std::vector<Part> parts;
  for (const std::uint64_t count : counts) {
    entries.push_back({.count = count});
    const auto entry = static_cast<std::uint32_t>(entries.size() - 1);
    for (std::uint32_t i = 0; i < size.PartsOf(entries.back()); ++i) parts.push_back({entry, i});
  }
  std::vector<std::size_t> sizes;
  std::size_t next = 0;
  for (const UpdateBatch& batch : MakeBatches(entries, size, parts, parts_max, 7)) {
    EXPECT_EQ(batch.group, 7u);
    for (const Part part : batch.parts) {
      EXPECT_EQ(part.entry, parts[next].entry);
      EXPECT_EQ(part.index, parts[next++].index);
    }
    sizes.push_back(batch.parts.size());
  }
  EXPECT_EQ(next, parts.size()) << "every part is in one batch";
  return sizes;
}

using ::testing::ElementsAre;

TEST(UpdateBatchTest, PartsAreTakenTogetherUpToTheLimit) {
  EXPECT_THAT(Cut({5 * kPart}, 2), ElementsAre(2, 2, 1));
  EXPECT_THAT(Cut({10, 20, 30}, 8), ElementsAre(3));
  EXPECT_THAT(Cut({kPart + 1, 10}, 8), ElementsAre(3)) << "the parts are of several tensors";
  EXPECT_THAT(Cut({10, 20, 30}, 1), ElementsAre(1, 1, 1));
  EXPECT_THAT(Cut({}, 8), ElementsAre());
}

TEST(UpdateBatchTest, LargePartsAreAlone) {
  EXPECT_THAT(Cut({2 * kBatchElements}, 8, kBatchElements), ElementsAre(1, 1));
  EXPECT_THAT(Cut({4 * kBatchElements}, 8, 2 * kBatchElements), ElementsAre(1, 1));
  EXPECT_THAT(Cut({kBatchElements, 1}, 8, kBatchElements / 4), ElementsAre(4, 1));
}

}  // namespace
}  // namespace sluice::optim
