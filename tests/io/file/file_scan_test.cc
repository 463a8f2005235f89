#include "io/file/file_scan.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::IsStatus;

constexpr std::uint64_t kPieceBytes = 16384;

std::string Noise(std::size_t bytes) {
  std::mt19937 random(5);
  std::string noise(bytes, '\0');
  for (char& each : noise) each = static_cast<char>(random());
  return noise;
}

class FileScanTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  FileScanTest() { std::ofstream(path_, std::ios::binary) << content_; }

  absl::StatusOr<std::string> Scan(const std::string& path) {
    auto scanner = FileScanner::Create({.piece_bytes = kPieceBytes, .queue_depth = 3});
    if (!scanner.ok()) return scanner.status();
    std::string found;
    const absl::Status status = (*scanner)->Scan(
        path, content_.size(), [&](std::uint64_t offset, std::span<const std::byte> bytes) {
          EXPECT_EQ(offset, found.size());
          found.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          return true;
        });
    if (!status.ok()) return status;
    return found;
  }

  testing::TempDirectory directory_;
  const std::string content_ = Noise(GetParam());
  const std::string path_ = directory_.path() + "/f";
};

TEST_P(FileScanTest, GivesEveryByteInOrder) {
  const auto found = Scan(path_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(*found == content_) << found->size() << " bytes of " << content_.size();
}

TEST_P(FileScanTest, ReadsThroughThePageCacheWhereThereIsNothingElse) {
  const testing::TempDirectory memory("/dev/shm");
  std::filesystem::copy_file(path_, memory.path() + "/f");
  const auto found = Scan(memory.path() + "/f");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(*found == content_);
}

/// Files that have an end to cut.
class FileCutTest : public FileScanTest {};

TEST_P(FileCutTest, AFileThatBecameShorterIsNamed) {
  std::filesystem::resize_file(path_, content_.size() - 1);
  EXPECT_THAT(Scan(path_), IsStatus(absl::StatusCode::kDataLoss, "has become shorter"));
}

INSTANTIATE_TEST_SUITE_P(Lengths,
                         FileScanTest,
                         ::testing::Values(0,
                                           1,
                                           4095,
                                           4096,
                                           kPieceBytes,
                                           3 * kPieceBytes + 1,
                                           10 * kPieceBytes - 7,
                                           11 * kPieceBytes));
INSTANTIATE_TEST_SUITE_P(Lengths,
                         FileCutTest,
                         ::testing::Values(1, 4095, 4096, kPieceBytes, 10 * kPieceBytes - 7));

TEST(FileScannerTest, StopsWhereItIsTold) {
  const testing::TempDirectory directory;
  const std::string path = directory.path() + "/f";
  std::ofstream(path, std::ios::binary) << Noise(20 * kPieceBytes);
  auto scanner = FileScanner::Create({.piece_bytes = kPieceBytes, .queue_depth = 4});
  ASSERT_TRUE(scanner.ok()) << scanner.status();
  for (int round = 0; round < 3; ++round) {
    int taken = 0;
    EXPECT_TRUE((*scanner)
                    ->Scan(path,
                           20 * kPieceBytes,
                           [&](std::uint64_t, std::span<const std::byte>) { return ++taken < 3; })
                    .ok());
    EXPECT_EQ(taken, 3);
  }
  EXPECT_THAT((*scanner)->Scan(directory.path() + "/none",
                               1,
                               [](std::uint64_t, std::span<const std::byte>) { return true; }),
              IsStatus(absl::StatusCode::kNotFound, "/none"));
}

}  // namespace
}  // namespace sluice::io
