#include "runtime/engine/data/sole_copies.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::engine {
namespace {

constexpr std::uint64_t kSolePage = 4096;

std::shared_ptr<TensorInfo> MakeSoleTensor(const std::string& name,
                                           std::uint64_t offset,
                                           std::uint64_t bytes) {
  auto info = std::make_shared<TensorInfo>();
  info->spec.name = name;
  info->offset = offset;
  info->bytes = bytes;
  return info;
}

TEST(SoleCopiesTest, BytesAreSummedByTensorAndFreedOnesAreNotNamed) {
  auto freed = MakeSoleTensor("freed", 3 * kSolePage, kSolePage);
  freed->alive = false;
  auto segment = std::make_shared<Segment>(
      Segment::Parts{.index = 1,
                     .first_page = 0,
                     .pages = 4,
                     .page_bytes = kSolePage,
                     .tensors = {MakeSoleTensor("first", 0, kSolePage + 64),
                                 MakeSoleTensor("second", kSolePage + 128, 2 * kSolePage - 128),
                                 freed}});
  PageOwners owners;
  owners.Add(segment);
  const std::vector<SoleCopy> copies = SoleCopiesIn(owners, {1, 0, 3});
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].tensor, "first");
  EXPECT_EQ(copies[0].bytes, kSolePage + 64);
  EXPECT_EQ(copies[1].tensor, "second");
  EXPECT_EQ(copies[1].bytes, kSolePage - 128) << "the second page is not among the copies";
}

TEST(SoleCopiesTest, AFewAreNamedAndTheOthersCounted) {
  EXPECT_EQ(Describe(std::vector<SoleCopy>()), "nothing is only there");
  std::vector<SoleCopy> copies = {{"a", 1}, {"b", 20}};
  EXPECT_EQ(Describe(copies), "only there: 1 bytes of 'a', 20 bytes of 'b'");
  copies.resize(10, {"c", 3});
  const std::string many = Describe(copies);
  EXPECT_THAT(many, ::testing::EndsWith(", 3 bytes of 'c' and of 2 others"));
}

}  // namespace
}  // namespace sluice::engine
