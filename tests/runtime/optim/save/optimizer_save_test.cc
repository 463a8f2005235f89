// A save is loaded whole, or refused without any change.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "tests/runtime/optim/paged_model.h"
#include "tests/support/child_process.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::optim {
namespace {

using sluice::testing::HasCode;
using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::RuntimeFixture;
using sluice::testing::TempDirectory;

PagedModel::Options UsualOptions() {
  return {.spec = {.state = StateType::k8Bit}, .groups = {{20000, 10}, {3000}}};
}

class OptimizerSaveTest : public ::testing::Test {
 protected:
  OptimizerSaveTest() { runtime_.Start(); }

  std::string file() const { return directory_.path() + "/optimizer.sluice"; }
  std::string ReadSave() const {
    std::ifstream stream(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  TempDirectory directory_;
  RuntimeFixture runtime_;
};

TEST_F(OptimizerSaveTest, ALoadedOptimizerGoesOnAsIfItHadNeverStopped) {
  PagedModel model(runtime_, UsualOptions());
  for (int step = 1; step <= 3; ++step) {
    ASSERT_THAT(model.Step(), IsOk());
    model.ReferenceStep(step);
  }
  GroupRates rates = model.rates();
  rates.learning_rate = 0.1 + 0.2;
  ASSERT_THAT(model.optimizer().SetRates(model.group(1), rates), IsOk());
  ASSERT_THAT(model.optimizer().Save(directory_.path()), IsOk());
  ASSERT_THAT(model.optimizer().SetRates(model.group(1), model.rates()), IsOk());
  ASSERT_THAT(model.Step(), IsOk());
  model.Recreate();
  ASSERT_THAT(model.optimizer().Load(directory_.path()), IsOk());
  EXPECT_EQ(model.optimizer().step(), 3);
  EXPECT_EQ(model.optimizer().Rates(model.group(1))->learning_rate, rates.learning_rate);
  ASSERT_THAT(model.optimizer().SetRates(model.group(1), model.rates()), IsOk());
  EXPECT_EQ(model.Paged(), model.Reference());
  ASSERT_THAT(model.Step(), IsOk());
  model.ReferenceStep(4);
  EXPECT_EQ(model.Paged(), model.Reference());
  // One file, and nothing beside it.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1);
}

TEST_F(OptimizerSaveTest, AFileWithAnyBitWrongIsRefusedAndNothingChanges) {
  PagedModel model(runtime_, UsualOptions());
  ASSERT_THAT(model.Step(), IsOk());
  ASSERT_THAT(model.optimizer().Save(directory_.path()), IsOk());
  ASSERT_THAT(model.Step(), IsOk());
  const auto before = model.Paged();
  const auto size = std::filesystem::file_size(file());
  for (std::uint64_t at = 0; at < size; at += at < size - 600 ? 4999 : 37) {
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(stream.get());
    const auto put = [&](char value) {
      stream.seekp(static_cast<std::streamoff>(at));
      stream.put(value);
      stream.flush();
    };
    put(static_cast<char>(byte ^ 16));
    EXPECT_THAT(model.optimizer().Load(directory_.path()), HasCode(absl::StatusCode::kDataLoss))
        << "byte " << at;
    put(byte);
  }
  EXPECT_EQ(model.Paged(), before);
  EXPECT_EQ(model.optimizer().step(), 2);
  for (const std::uint64_t cut : {size - 1, size / 2, std::uintmax_t{40}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(file(), cut);
    EXPECT_THAT(model.optimizer().Load(directory_.path()), HasCode(absl::StatusCode::kDataLoss));
  }
  EXPECT_EQ(model.Paged(), before);
}

TEST_F(OptimizerSaveTest, AnotherOptimizersFileIsRefusedAndSaysWhatDiffers) {
  PagedModel model(runtime_, UsualOptions());
  ASSERT_THAT(model.optimizer().Save(directory_.path()), IsOk());
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  RuntimeFixture other;
  other.Start();
  PagedModel::Options options = UsualOptions();
  options.groups = {{20000, 11}, {3000}};
  PagedModel larger(other, options);
  EXPECT_THAT(larger.optimizer().Load(directory_.path()),
              IsStatus(kInvalid, "the number of elements of \"p1\" is 10 in the save and 11 here"));
  options = UsualOptions();
  options.spec.optimizer = OptimizerKind::kLion;
  RuntimeFixture third;
  third.Start();
  PagedModel lion(third, options);
  EXPECT_THAT(lion.optimizer().Load(directory_.path()),
              IsStatus(kInvalid, "its kind is \"adamw\" in the save and \"lion\" here"));
}

TEST_F(OptimizerSaveTest, ADirectoryThatIsNoneIsNamedWithWhatToDo) {
  PagedModel model(runtime_, UsualOptions());
  OffloadedOptimizer& optimizer = model.optimizer();
  const std::string none = directory_.path() + "/none";
  const std::string plain = directory_.path() + "/plain";
  std::ofstream(plain) << "text";
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  EXPECT_THAT(optimizer.Save(none),
              IsStatus(kNotFound, "there is no directory " + none + "; make it first"));
  EXPECT_THAT(optimizer.Save(plain), IsStatus(kInvalid, plain + " is no directory"));
  EXPECT_THAT(optimizer.Save(plain + "/sub"), IsStatus(kInvalid, "ENOTDIR"));
  if (geteuid() == 0) {  // nobody else may write there
    EXPECT_THAT(optimizer.Save("/proc"), IsStatus(kInvalid, "no file can be made in /proc"));
  }
  const std::string in_the_way = directory_.path() + "/in_the_way";
  std::filesystem::create_directories(in_the_way + "/optimizer.sluice");
  EXPECT_NE(optimizer.Save(in_the_way).message().find("a directory; move it away"),
            absl::string_view::npos);
  EXPECT_THAT(optimizer.Save(""), IsStatus(kInvalid, "name of the save's directory is empty"));
  using Fn = std::function<absl::Status(const std::string&)>;
  const Fn reads[] = {
      [&](const std::string& path) { return optimizer.Load(path); },
      [](const std::string& path) { return OffloadedOptimizer::ReadSave(path).status(); }};
  for (const Fn& read : reads) {
    EXPECT_THAT(read(none), IsStatus(kNotFound, "there is no directory " + none + "; name one"));
    EXPECT_THAT(read(directory_.path()),
                IsStatus(kNotFound, "in " + directory_.path() + "; name one that has a save"));
    EXPECT_EQ(read(directory_.path()).message().find("such as"), absl::string_view::npos)
        << "the directory in_the_way is no save";
    EXPECT_THAT(read(plain), IsStatus(kInvalid, plain + " is no directory; name one"));
    EXPECT_THAT(read(""), IsStatus(kInvalid, "name of the save's directory is empty"));
  }
  for (const char* name : {"/step-1", "/step-2", "/without"}) {
    std::filesystem::create_directory(directory_.path() + name);
  }
  EXPECT_THAT(optimizer.Save(directory_.path() + "/step-1"), IsOk());
  EXPECT_THAT(optimizer.Save(directory_.path() + "/step-2"), IsOk());
  EXPECT_THAT(optimizer.Load(directory_.path()),
              IsStatus(kNotFound, "that has a save, such as " + directory_.path() + "/step-2"));
}

TEST_F(OptimizerSaveTest, DifferencesAreSaidInWords) {
  const auto difference = [this](const PagedModel::Options& options) {
    PagedModel model(runtime_, UsualOptions());
    EXPECT_THAT(model.optimizer().Save(directory_.path()), IsOk());
    RuntimeFixture other;
    other.Start();
    PagedModel loads(other, options);
    return std::string(loads.optimizer().Load(directory_.path()).message());
  };
  const auto expect = [&](const PagedModel::Options& options, const std::string& words) {
    const std::string message = difference(options);
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_EQ(message.find("/groups"), std::string::npos) << message;
  };
  PagedModel::Options options = UsualOptions();
  options.spec.state = StateType::kBf16;
  expect(options, "the type of its states is \"8bit\" in the save and \"bf16\" here");
  options = UsualOptions();
  options.groups = {{20000, 10}};
  expect(options, "the number of groups is 2 in the save and 1 here");
  options.groups = {{20000}, {10, 3000}};
  expect(options, "the number of parameters of group \"g0\" is 2 in the save and 1 here");
}

TEST_F(OptimizerSaveTest, ASaveTellsItsStepAndNoteWithoutAnOptimizer) {
  PagedModel model(runtime_, UsualOptions());
  ASSERT_THAT(model.Step(), IsOk());
  ASSERT_THAT(model.optimizer().Save(directory_.path(), "of \"mine\"\n"), IsOk());
  absl::StatusOr<OptimizerSave> save = OffloadedOptimizer::ReadSave(directory_.path());
  ASSERT_TRUE(save.ok()) << save.status();
  EXPECT_EQ(save->step, 1);
  EXPECT_EQ(save->note, "of \"mine\"\n");
  EXPECT_THAT(model.optimizer().Load(directory_.path()), IsOk());
  ASSERT_THAT(model.optimizer().Save(directory_.path(), "\xff"), IsOk());
  EXPECT_TRUE(OffloadedOptimizer::ReadSave(directory_.path()).ok());
  ASSERT_THAT(model.optimizer().Save(directory_.path()), IsOk());
  EXPECT_EQ(OffloadedOptimizer::ReadSave(directory_.path())->note, "");
  EXPECT_THAT(OffloadedOptimizer::ReadSave("/nowhere").status(),
              HasCode(absl::StatusCode::kNotFound));
  std::filesystem::resize_file(file(), std::filesystem::file_size(file()) - 1);
  EXPECT_THAT(OffloadedOptimizer::ReadSave(directory_.path()).status(),
              HasCode(absl::StatusCode::kDataLoss));
}

TEST_F(OptimizerSaveTest, APipeInPlaceOfTheFileIsRefusedAtOnce) {
  PagedModel model(runtime_, UsualOptions());
  ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
  EXPECT_THAT(model.optimizer().Load(directory_.path()),
              IsStatus(absl::StatusCode::kInvalidArgument, "no regular file"));
}

/// File systems without nameless files (NFS, CIFS, FUSE): the file has a random name until it is
/// whole.
TEST_F(OptimizerSaveTest, ASaveNeedsNoNamelessFiles) {
  SLUICE_SKIP_FORK_UNDER_SANITIZERS();
  PagedModel model(runtime_, UsualOptions());
  ASSERT_THAT(model.Step(), IsOk());
  ASSERT_THAT(model.optimizer().Save(directory_.path()), IsOk());
  const std::string usual = ReadSave();
  const std::string text = sluice::testing::RunInChild([&]() -> std::string {
    const std::string failed = sluice::testing::RefuseNamelessFiles(EOPNOTSUPP);
    if (!failed.empty()) return failed;
    RuntimeFixture runtime;
    runtime.Start();
    PagedModel other(runtime, UsualOptions());
    if (const auto stepped = other.Step(); !stepped.ok()) return stepped.status().ToString();
    const absl::Status saved = other.optimizer().Save(directory_.path());
    return saved.ok() ? "" : saved.ToString();
  });
  EXPECT_EQ(text, "");
  EXPECT_EQ(ReadSave(), usual);
  EXPECT_EQ(directory_.entries(), 1);
}

}  // namespace
}  // namespace sluice::optim
