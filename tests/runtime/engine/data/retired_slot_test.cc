// A slot of nvme that lost its page: the page is reproduced or lost by name, the slot is used no
// more, and everything else goes on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::ByteTensor;
using testing::IsOk;
using testing::IsStatus;
using testing::Pattern;
using testing::RuntimeFixture;

constexpr std::uint64_t kBytes = 100 * kPage;

class RetiredSlotTest : public ::testing::Test {
 protected:
  RetiredSlotTest() { runtime_.Start(); }

  /// Overwrites slots of the spill file from outside: it has no name, but a descriptor.
  void Destroy(std::vector<off_t> slots) {
    const std::string directory = runtime_->GetStats().io.drives.at(0).directory;
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(entry, gone);
      if (gone || !target.starts_with(directory + "/")) continue;
      ++found;
      // Opened anew, without O_DIRECT.
      const int fd = open(entry.path().c_str(), O_WRONLY | O_CLOEXEC);
      ASSERT_GE(fd, 0);
      for (const off_t slot : slots) {
        const std::string noise(kPage, 'x');
        ASSERT_EQ(pwrite(fd, noise.data(), kPage, slot * static_cast<off_t>(kPage)),
                  static_cast<ssize_t>(kPage));
      }
      ASSERT_EQ(fsync(fd), 0);
      close(fd);
    }
    ASSERT_EQ(found, 1);
  }

  RuntimeFixture runtime_;
};

TEST_F(RetiredSlotTest, AReproduciblePageIsReproducedAndItsSlotRetired) {
  TensorSpec spec = ByteTensor("derived", kBytes);
  spec.reproduce = [](ByteRange range, std::span<std::byte> out) {
    const auto content = Pattern(3, kBytes);
    std::copy_n(
        content.begin() + static_cast<std::ptrdiff_t>(range.offset), out.size(), out.begin());
    return absl::OkStatus();
  };
  const auto tensor = runtime_->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  runtime_.Write(*tensor, Pattern(3, kBytes));
  Destroy({0, 1});  // low slots are taken first
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(runtime_.Read(*tensor), Pattern(3, kBytes));
  }
  const IoStats io = runtime_->GetStats().io;
  EXPECT_EQ(io.retired, 2u);
  EXPECT_EQ(io.drives.at(0).retired, 2u);
  EXPECT_EQ(io.drives.at(0).places, RuntimeFixture::kNvmePages + 2u) << "one in 512 to spare";
  EXPECT_TRUE(runtime_.listener.lost().empty());
  // The two slots hold no tensor's bytes any more.
  const TensorId after = runtime_.Make("after", kBytes);
  runtime_.Write(after, Pattern(5, kBytes));
  Destroy({0, 1});
  EXPECT_EQ(runtime_.Read(after), Pattern(5, kBytes));
  EXPECT_EQ(runtime_.Read(*tensor), Pattern(3, kBytes));
  EXPECT_EQ(runtime_->GetStats().io.retired, 2u);
}

TEST_F(RetiredSlotTest, ASoleCopyIsLostByNameAndItsSlotRetired) {
  const TensorId tensor = runtime_.Make("sole", kBytes);
  runtime_.Write(tensor, Pattern(1, kBytes));
  Destroy({0});
  std::uint64_t lost = 0;
  for (std::uint64_t offset = 0; offset < kBytes; offset += kPage) {
    const auto lease =
        runtime_.Acquire({.tensor = tensor, .range = {offset, kPage}, .tier = kDram0});
    if (lease.ok()) continue;
    EXPECT_THAT(lease.status(), IsStatus(absl::StatusCode::kDataLoss, "sole"));
    ++lost;
  }
  EXPECT_EQ(lost, 1u);
  EXPECT_EQ(runtime_->GetStats().io.retired, 1u);
  EXPECT_TRUE(runtime_.listener.drives_fenced().empty());
  runtime_.Write(tensor, Pattern(2, kBytes));
  EXPECT_EQ(runtime_.Read(tensor), Pattern(2, kBytes)) << "all slots but one go on";
}

}  // namespace
}  // namespace sluice
