#include "tools/train/files/corpus.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/temporary_directory.h"
#include "xxhash.h"

namespace sluice::tools {
namespace {

using ::testing::HasSubstr;

std::string Whole(const gpt::Text& text) {
  std::string whole(text.size(), '\0');
  text.CopyTo(0, {reinterpret_cast<std::uint8_t*>(whole.data()), whole.size()});
  return whole;
}

absl::Status ErrorOf(const CorpusOptions& options) {
  const absl::StatusOr<Corpus> corpus = LoadCorpus(options);
  EXPECT_FALSE(corpus.ok());
  return corpus.status();
}

TEST(CorpusTest, JoinsNamedFilesInOrderWhateverTheirBytes) {
  const TemporaryDirectory directory;
  const std::string binary("\x00\xff\r\n\x1a", 5);
  const std::string first = directory.Write("z", binary);
  const std::string second = directory.Write("a", "tail");
  const absl::StatusOr<Corpus> corpus = LoadCorpus({.files = {first, second}});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(Whole(corpus->text), binary + "tail");
  EXPECT_EQ(corpus->files, 2u);
}

TEST(CorpusTest, HashIsXxh3) {
  const TemporaryDirectory directory;
  const absl::StatusOr<Corpus> corpus = LoadCorpus({.files = {directory.Write("f", "abc")}});
  ASSERT_TRUE(corpus.ok());
  EXPECT_EQ(corpus->hash, "78af5f94892f3950");  // the published value of XXH3_64bits("abc")
}

TEST(CorpusTest, NoPieceOfALargeTextIsLarge) {
  const TemporaryDirectory directory;
  std::string large;
  for (int line = 0; large.size() < (3 << 20); ++line) large += std::to_string(line) + "\n";
  const absl::StatusOr<Corpus> corpus =
      LoadCorpus({.files = {directory.Write("a", large), directory.Write("b", "tail")}});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  for (const gpt::Text::Chunk& chunk : corpus->text.chunks()) {
    EXPECT_LE(chunk.capacity(), std::size_t{256} << 10);
  }
  large += "tail";
  EXPECT_TRUE(Whole(corpus->text) == large);
  EXPECT_EQ(corpus->text.At(large.size() - 1), 'l');
  EXPECT_EQ(corpus->hash, fmt::format("{:016x}", XXH3_64bits(large.data(), large.size())));
  std::array<std::uint8_t, 10> across;
  corpus->text.CopyTo(gpt::Text::kChunkBytes - 4, across);
  EXPECT_EQ(std::string(across.begin(), across.end()),
            large.substr(gpt::Text::kChunkBytes - 4, across.size()));
}

/// A tree that looks like the project's.
void MakeProject(const TemporaryDirectory& directory) {
  std::filesystem::create_directories(directory / "include/sluice");
  for (const char* name : {"build/x", ".git", "configs"}) {
    std::filesystem::create_directories(directory / name);
  }
  directory.Write("CMakeLists.txt", "1");
  directory.Write("include/sluice/runtime.h", "3");
  directory.Write("README.md", "2");
  directory.Write("empty.md", "");
  directory.Write("configs/a.toml", "0");
  directory.Write("build/x/generated.cc", "no");
  directory.Write(".git/HEAD.txt", "no");
  directory.Write("picture.png", "no");
  std::filesystem::create_symlink(directory / "README.md", directory / "link.md");
  std::filesystem::create_symlink("loop.md", directory / "loop.md");
  std::filesystem::create_directory_symlink("..", directory / "configs/up");
}

TEST(CorpusTest, DefaultIsTheProjectAboveTheStartInSortedOrder) {
  const TemporaryDirectory directory;
  MakeProject(directory);
  const absl::StatusOr<Corpus> corpus = LoadCorpus({.start_directory = directory / "configs"});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(Whole(corpus->text), "1203");
}

TEST(CorpusTest, WithoutAProjectTheErrorSaysWhatToDo) {
  const TemporaryDirectory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  const std::string of_path(ErrorOf({.start_directory = directory.path()}).message());
  const std::string of_name(ErrorOf({.start_directory = ""}).message());
  std::filesystem::current_path(before);
  EXPECT_THAT(of_path, HasSubstr("--text"));
  EXPECT_THAT(
      of_name,
      HasSubstr("above the configuration nor above the working directory " + directory.path()));
}

TEST(CorpusTest, UnusableFilesAreNamed) {
  const TemporaryDirectory directory;
  const std::string empty = directory.Write("empty.txt", "");
  EXPECT_THAT(std::string(ErrorOf({.files = {empty}}).message()), HasSubstr("empty.txt is empty"));
  const absl::Status missing = ErrorOf({.files = {directory / "missing.txt"}});
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), ::testing::EndsWith("missing.txt does not exist"));
  EXPECT_THAT(std::string(ErrorOf({.files = {"no"}, .files_name = "train.texts"}).message()),
              ::testing::StrEq("train.texts: no does not exist"));
  EXPECT_THAT(std::string(ErrorOf({.files = {directory.path()}}).message()),
              HasSubstr("is a directory"));
}

TEST(CorpusTest, EndlessFilesAreRefused) {
  const TemporaryDirectory directory;
  const std::string pipe = directory / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(std::string(ErrorOf({.files = {"/dev/zero"}}).message()),
              HasSubstr("/dev/zero is a device"));
  EXPECT_THAT(std::string(ErrorOf({.files = {pipe}}).message()), HasSubstr("pipe is empty"));
  EXPECT_THAT(std::string(ErrorOf({.files = {""}}).message()), HasSubstr("name a file"));
  const std::string large = directory.Write("large", "");
  std::filesystem::resize_file(large, kTextBytesMax.count() + 1);
  EXPECT_THAT(std::string(ErrorOf({.files = {large}}).message()),
              HasSubstr("large is too large; at most 1 GiB are read"));
}

TEST(CorpusTest, APipeIsReadToItsEnd) {
  std::array<int, 2> ends;
  ASSERT_EQ(pipe(ends.data()), 0);
  ASSERT_EQ(write(ends[1], "abc", 3), 3);
  close(ends[1]);
  const auto corpus = LoadCorpus({.files = {"/dev/fd/" + std::to_string(ends[0])}});
  close(ends[0]);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(Whole(corpus->text), "abc");
}

TEST(CorpusTest, AFailedReadIsTheUsersError) {
  // There is nothing at address 0.
  const absl::Status status = ErrorOf({.files = {"/proc/self/mem"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/self/mem"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("EIO"));
}

}  // namespace
}  // namespace sluice::tools
