// Errors that pass: they fail the requests that wait, and nothing is lost or closed for good.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "base/thread.h"
#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/thread_cpus.h"

namespace sluice {
namespace {

using testing::ByteTensor;
using testing::IsOk;
using testing::IsStatus;
using testing::Pattern;
using testing::RuntimeFixture;
using testing::StoreFaults;
using testing::TempDirectory;

/// The descriptor under which this process has `path` open.
int DescriptorOf(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) != path) continue;
    return std::stoi(entry.path().filename().string());
  }
  return -1;
}

/// Reads of the open file fail with EIO while the object lives. The file's descriptor is then that
/// of the process's memory, which has nothing at low addresses.
class UnreadableFile {
 public:
  explicit UnreadableFile(const std::string& path) : descriptor_(DescriptorOf(path)) {
    kept_ = dup(descriptor_);
    const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(dup2(memory, descriptor_), descriptor_);
    close(memory);
  }
  ~UnreadableFile() {
    EXPECT_EQ(dup2(kept_, descriptor_), descriptor_);
    close(kept_);
  }

 private:
  const int descriptor_;
  int kept_ = -1;
};

/// Recipe of the tensors of two pages here that can be reproduced.
absl::Status MakeAgain(ByteRange range, std::span<std::byte> out) {
  const auto content = Pattern(7, 2 * kPage);
  std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(range.offset), out.size(), out.begin());
  return absl::OkStatus();
}

class TransientFaultTest : public ::testing::Test {
 protected:
  TransientFaultTest() {
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.Start();
  }

  /// Fills hbm and dram with something else, so that what was there sits in nvme alone.
  void PushOut() {
    const TensorId filler = runtime_.Make("filler", 64 * kPage);
    runtime_.Write(filler, Pattern(99, 64 * kPage));
    ASSERT_THAT(runtime_->Free(filler), IsOk());
  }

  StoreFaults faults_;
  RuntimeFixture runtime_;
};

TEST_F(TransientFaultTest, AReadThatFailsForNowLosesNothing) {
  const TensorId tensor = runtime_.Make("t", 4 * kPage);
  runtime_.Write(tensor, Pattern(1, 4 * kPage));
  PushOut();
  const Access second{.tensor = tensor, .range = {kPage + 8, 100}, .tier = kDram0};
  for (const absl::Status& fault :
       {absl::UnavailableError("slot 7: EAGAIN"), absl::InternalError("slot 7: EBADF")}) {
    faults_.FailReads(fault);
    EXPECT_THAT(runtime_.Acquire(second),
                IsStatus(absl::StatusCode::kUnavailable,
                         "tensor 't', bytes 4104 to 4203 cannot be brought to dram0 now: slot 7"));
    faults_.FailReads(absl::OkStatus());
    EXPECT_THAT(runtime_.Acquire(second), IsOk());
    PushOut();
  }
  EXPECT_EQ(runtime_.Read(tensor), Pattern(1, 4 * kPage));
  EXPECT_EQ(runtime_->GetStats().pages_lost, 0u);
  EXPECT_TRUE(runtime_.listener.lost().empty());
  EXPECT_TRUE(runtime_.listener.fenced().empty());
}

TEST_F(TransientFaultTest, AFileThatCannotBeReadNowLosesNothing) {
  const TempDirectory directory;
  const std::string path = std::filesystem::canonical(directory.path()).string() + "/weights";
  std::ofstream(path) << std::string(2 * kPage, 'x');
  TensorSpec spec = ByteTensor("weights", 2 * kPage);
  spec.file = FileHome{path, 0};
  const auto tensor = runtime_->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  const Access first{.tensor = *tensor, .range = {0, kPage}, .tier = kDram0};
  {
    const UnreadableFile unreadable(path);
    EXPECT_THAT(runtime_.Acquire(first),
                IsStatus(absl::StatusCode::kUnavailable,
                         "tensor 'weights', bytes 0 to 4095 cannot be brought to dram0 now: read " +
                             path + " at offset 0: EIO (Input/output error)"));
  }
  EXPECT_EQ(runtime_->GetStats().pages_lost, 0u);
  EXPECT_EQ(runtime_.Read(*tensor), std::vector<std::byte>(2 * kPage, std::byte{'x'}));
}

TEST_F(TransientFaultTest, EveryThreadRunsWhereItIsTold) {
  const std::vector<int> allowed = base::AllowedCpus();
  if (allowed.size() < 2) GTEST_SKIP() << "there is one processor only";
  const std::vector<int> cpus = {allowed.back()};
  runtime_.options.cpus = cpus;
  runtime_.Start();
  const TempDirectory directory;
  const std::string path = std::filesystem::canonical(directory.path()).string() + "/weights";
  std::ofstream(path) << std::string(kPage, 'x');
  TensorSpec spec = ByteTensor("weights", kPage);
  spec.file = FileHome{path, 0};
  const auto tensor = runtime_->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  {
    const UnreadableFile unreadable(path);  // a failing read, so that there is a thread for retries
    EXPECT_FALSE(runtime_.Acquire({.tensor = *tensor, .tier = kDram0}).ok());
  }
  const auto threads = testing::CpusOfThreads();
  for (const char* name : {"sluice-core", "sluice-io", "sluice-retry", "sluice-worker"}) {
    EXPECT_TRUE(threads.contains(name)) << name;
  }
  for (const auto& [name, sets] : threads) EXPECT_EQ(sets, std::set{cpus}) << name;
}

// A drive that is gone gives such errors. No op has to wait for pages that can be made again.
TEST_F(TransientFaultTest, APageThatCannotBeReadNowIsMadeAgainWhereItCanBe) {
  TensorSpec spec = ByteTensor("derived", 2 * kPage);
  spec.reproduce = MakeAgain;
  const auto tensor = runtime_->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  runtime_.Write(*tensor, Pattern(7, 2 * kPage));
  PushOut();
  faults_.FailReads(absl::InternalError("slot 7: read failed after 6 attempts: ENODEV"));
  EXPECT_EQ(runtime_.Read(*tensor), Pattern(7, 2 * kPage));
  EXPECT_EQ(runtime_->GetStats().pages_lost, 0u);
  EXPECT_GT(runtime_.log.Count("ENODEV"), 0);
}

TEST_F(TransientFaultTest, APageThatCannotBeReadNowNorMadeAgainStays) {
  TensorSpec spec = ByteTensor("derived", kPage);
  spec.reproduce = [](ByteRange, std::span<std::byte>) {
    return absl::InternalError("no recipe at all");
  };
  const auto tensor = runtime_->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  runtime_.Write(*tensor, Pattern(7, kPage));
  PushOut();
  faults_.FailReads(absl::InternalError("slot 7: read failed after 6 attempts: ENODEV"));
  const Access whole{.tensor = *tensor, .tier = kDram0};
  const absl::Status first = runtime_.Acquire(whole).status();
  EXPECT_THAT(first,
              IsStatus(absl::StatusCode::kUnavailable, "ENODEV; then the reproduce callback"));
  EXPECT_THAT(first, IsStatus(absl::StatusCode::kUnavailable, "no recipe at all"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(runtime_.Acquire(whole).status(), first);
  faults_.FailReads(absl::OkStatus());
  EXPECT_EQ(runtime_.Read(*tensor), Pattern(7, kPage));
  EXPECT_EQ(runtime_->GetStats().pages_lost, 0u);
  EXPECT_TRUE(runtime_.listener.lost().empty());
}

TEST_F(TransientFaultTest, ACallbackThatIsUnavailableLosesNothing) {
  std::atomic<bool> available = false;
  TensorSpec spec = ByteTensor("derived", 2 * kPage);
  spec.reproduce = [&](ByteRange range, std::span<std::byte> out) {
    if (!available) return absl::UnavailableError("no recipe yet");
    return MakeAgain(range, out);
  };
  const auto tensor = runtime_->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  runtime_.Write(*tensor, Pattern(7, 2 * kPage));
  PushOut();
  faults_.FailReads(absl::DataLossError("checksum mismatch"));
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THAT(runtime_.Acquire({.tensor = *tensor, .tier = kDram0}),
                IsStatus(absl::StatusCode::kUnavailable,
                         "cannot be brought to dram0 now: the reproduce callback of tensor "
                         "'derived': no recipe yet"));
  }
  EXPECT_EQ(runtime_->GetStats().pages_lost, 0u);
  available = true;
  EXPECT_EQ(runtime_.Read(*tensor), Pattern(7, 2 * kPage));
  EXPECT_TRUE(runtime_.listener.lost().empty());
}

}  // namespace
}  // namespace sluice
