// A file system with neither O_TMPFILE nor fallocate(2): bindfs through FUSE, which takes root.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <iterator>
#include <span>
#include <string>

#include "base/new_file.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "io/store/page_store.h"
#include "tests/support/child_process.h"
#include "tests/support/small_file_system.h"
#include "tests/support/store/every_slot.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

/// Runs `body` in a child with a bindfs at `path`. "skip: ..." when there can be none.
std::string OnBindfs(const std::function<std::string(const std::string& path)>& body) {
  const testing::TempDirectory source;
  const testing::TempDirectory temp;
  return testing::RunInChild([&] {
    const std::string why = testing::MountBindfs(source.path(), temp.path());
    return why.empty() ? body(temp.path()) : "skip: " + why;
  });
}

std::string UseAStoreOnFuse(const std::string& path) {
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  for (const bool direct : {true, false}) {
    const PageStoreOptions options = {.directory = path,
                                      .page_bytes = 65536,
                                      .slots = 256,
                                      .direct = direct ? Use::kAuto : Use::kOff};
    const auto store = PageStore::Create(options, workers);
    if (!store.ok()) return store.status().ToString();
    const PageStoreStats stats = (*store)->stats();
    if (stats.reserved_space_reason != "fallocate is not supported: EOPNOTSUPP") {
      return "reserved: " + stats.reserved_space_reason;
    }
    for (std::uint64_t generation = 1; generation <= 2; ++generation) {
      const std::string wrong = testing::UseEverySlot(**store, options, generation);
      if (!wrong.empty()) return fmt::format("direct {}: {}", direct, wrong);
    }
  }
  return {};
}

TEST(SlowFuseStoreTest, AStoreWorksWithoutFallocateAndNamelessFiles) {
  const std::string text = OnBindfs(UseAStoreOnFuse);
  if (text.starts_with("skip")) GTEST_SKIP() << "needs root and bindfs: " << text.substr(6);
  EXPECT_EQ(text, "");
}

std::string SaveOnFuse(const std::string& path) {
  const int nameless = open(path.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (nameless >= 0 || errno != EOPNOTSUPP) return "has nameless files: the test shows nothing";
  const std::string content(std::size_t{3} << 20, 'c');
  for (int i = 0; i < 2; ++i) {
    auto file = base::NewFile::Create(path + "/file");
    if (!file.ok()) return file.status().ToString();
    absl::Status status = (*file)->Write(std::as_bytes(std::span(content)));
    if (status.ok()) status = (*file)->Commit();
    if (!status.ok()) return status.ToString();
  }
  return std::to_string(std::distance(std::filesystem::directory_iterator(path), {}));
}

TEST(SlowFuseStoreTest, AFileIsSavedWhole) {
  const std::string text = OnBindfs(SaveOnFuse);
  if (text.starts_with("skip")) GTEST_SKIP() << "needs root and bindfs: " << text.substr(6);
  EXPECT_EQ(text, "1");
}

}  // namespace
}  // namespace sluice::io
