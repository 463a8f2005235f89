#include "tools/atomic_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(AtomicFileTest, AppearsOnlyOnCommit) {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("file", "old");
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string expected;
  for (int i = 0; i < 5; ++i) {
    const std::string part(700'000, static_cast<char>('a' + i));
    ASSERT_TRUE((*file)->Append(part).ok());
    expected += part;
  }
  EXPECT_EQ(ReadWhole(path), "old");
  ASSERT_TRUE((*file)->Commit().ok());
  file->reset();
  EXPECT_EQ(ReadWhole(path), expected);
  EXPECT_THAT(directory.Names(), ElementsAre("file"));
}

TEST(AtomicFileTest, WithoutCommitNothingIsLeft) {
  const TemporaryDirectory directory;
  {
    auto file = AtomicFile::Create(directory / "file");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append("content").ok());
    EXPECT_EQ(directory.Names().size(), 1u);
  }
  EXPECT_THAT(directory.Names(), IsEmpty());
}

TEST(AtomicFileTest, ErrorsAreTyped) {
  const TemporaryDirectory directory;
  EXPECT_EQ(AtomicFile::Create(directory / "no/file").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(AtomicFile::Create(directory.path()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AtomicFile::Create("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AtomicFileTest, AFailedWriteStaysFailed) {
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append("content").ok());
  std::filesystem::remove_all(directory.path());
  EXPECT_FALSE((*file)->Commit().ok());
  EXPECT_FALSE((*file)->Append("more").ok());
}

}  // namespace
}  // namespace sluice::tools
