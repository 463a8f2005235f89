// Weights of a checkpoint as tensors that are only read, under budgets of some pages.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file/file_descriptor.h"
#include "io/safetensors/safetensors_reader.h"
#include "sluice/weights.h"
#include "tests/io/safetensors/file_content.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using testing::IsOk;
using testing::IsStatus;
using testing::RuntimeFixture;
using ::testing::SizeIs;

constexpr std::uint64_t kPage = RuntimeFixture::kPage;
constexpr int kModelLayers = 12;

std::string Letters(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string letters(count, '?');
  for (char& each : letters) each = static_cast<char>(random());
  return letters;
}

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A checkpoint in two files: layers of a page and more, tensors of some bytes, one without any.
class OpenWeightsTest : public ::testing::Test {
 protected:
  OpenWeightsTest() {
    first_.tensors.push_back({"empty", "BF16", {0, 4}, ""});
    for (int i = 0; i < kModelLayers; ++i) {
      const std::string name = "layers." + std::to_string(i);
      first_.tensors.push_back({name + ".bias", "F32", {3}, Letters(12, 2 * i)});
      const auto bytes = static_cast<std::int64_t>(kPage * 11 + 30 * i);
      first_.tensors.push_back({name + ".w", "U8", {bytes}, Letters(bytes, 2 * i + 1)});
    }
    second_.tensors = {{"head", "F4", {5, 4}, Letters(10, 99)},
                       {"norm", "BF16", {}, Letters(2, 98)}};
    first_.Write(directory_.path() + "/1.safetensors");
    second_.Write(directory_.path() + "/2.safetensors");
    std::ofstream index(directory_.path() + "/m.index.json");
    index << R"({"weight_map":{)";
    for (const auto& tensor : first_.tensors)
      index << '"' << tensor.name << R"(":"1.safetensors",)";
    index << R"("head":"2.safetensors","norm":"2.safetensors"}})";
    index.close();
    runtime_.options.hbm_bytes = Bytes(0);
  }

  std::vector<Weight> Open(const WeightOptions& options = {}) {
    auto weights = runtime_->OpenWeights(directory_.path(), options);
    EXPECT_THAT(weights, IsOk());
    return weights.ok() ? *std::move(weights) : std::vector<Weight>();
  }
  const std::string& BytesOf(const std::string& name) {
    for (io::FileContent* content : {&first_, &second_}) {
      for (const auto& tensor : content->tensors) {
        if (tensor.name == name) return tensor.data;
      }
    }
    ADD_FAILURE() << name;
    return name;
  }
  absl::StatusOr<std::string> Leased(const Weight& weight, TierId tier = kDram0) {
    SLUICE_ASSIGN_OR_RETURN(
        const Lease lease,
        runtime_.Acquire({.tensor = weight.tensor, .mode = AccessMode::kRead, .tier = tier}));
    return TextOf(lease.As<std::byte>());
  }

  testing::TempDirectory directory_;
  io::FileContent first_;
  io::FileContent second_;
  RuntimeFixture runtime_;
};

TEST_F(OpenWeightsTest, TellsNamesTypesAndShapes) {
  runtime_.Start();
  const std::vector<Weight> weights = Open();
  ASSERT_THAT(weights, SizeIs(1 + 2 * kModelLayers + 2));
  EXPECT_EQ(weights[0].name, "empty");
  EXPECT_EQ(weights[0].tensor, TensorId());
  EXPECT_THAT(weights[0].shape, ElementsAre(0, 4));
  const Weight& head = weights[1 + 2 * kModelLayers];
  EXPECT_EQ(head.type, "F4");
  EXPECT_THAT(head.shape, ElementsAre(5, 4));
  EXPECT_EQ(head.bytes, Bytes(10));
  EXPECT_EQ(head.file, directory_.path() + "/2.safetensors");
  EXPECT_EQ(runtime_->TypeOfTensor(head.tensor).value(), DType::kU8);
  EXPECT_THAT(runtime_->ShapeOfTensor(head.tensor).value(), ElementsAre(10));
  EXPECT_EQ(runtime_->TypeOfTensor(weights.back().tensor).value(), DType::kBF16);
  EXPECT_THAT(runtime_->ShapeOfTensor(weights.back().tensor).value(), ElementsAre());
}

TEST_F(OpenWeightsTest, EveryByteIsTheFilesUnderAnyBudget) {
  for (const std::uint64_t nvme : {0, 1024}) {
    for (const std::uint64_t hbm : {0, 16}) {
      runtime_.options.io.io_uring = hbm > 0 ? Use::kOff : Use::kAuto;
      runtime_.options.hbm_bytes = Bytes(hbm * kPage);
      runtime_.options.nvme_bytes = Bytes(nvme * kPage);
      runtime_.Start();
      const std::vector<Weight> weights = Open();
      for (int pass = 0; pass < 3; ++pass) {
        for (const Weight& weight : weights) {
          if (weight.tensor == TensorId()) continue;
          const auto bytes = Leased(weight, pass == 1 && hbm > 0 ? kHbm0 : kDram0);
          ASSERT_THAT(bytes, IsOk());
          ASSERT_TRUE(*bytes == BytesOf(weight.name)) << weight.name << " in pass " << pass;
        }
      }
      const Stats stats = runtime_->GetStats();
      const auto disk = stats.links.find("dram-nvme");
      EXPECT_TRUE(disk == stats.links.end() || disk->second.out.bytes == 0) << "nothing is written";
    }
  }
}

TEST_F(OpenWeightsTest, AddressesHaveTheFilesPhase) {
  runtime_.Start();
  const std::vector<Weight> weights = Open();
  const auto reader = io::SafetensorsReader::Open(directory_.path() + "/1.safetensors");
  ASSERT_THAT(reader, IsOk());
  for (const Weight& weight : weights) {
    if (weight.tensor == TensorId() || weight.file != (*reader)->path()) continue;
    const auto address = runtime_->AddressOf(weight.tensor);
    ASSERT_THAT(address, IsOk());
    const std::uint64_t offset = (*reader)->data_begin() + (*reader)->Find(weight.name)->offset;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address->data()) % kPage, offset % kPage)
        << weight.name;
  }
}

TEST_F(OpenWeightsTest, OutsideALeaseTheAddressesShowTheFile) {
  runtime_.Start();
  for (const Weight& weight : Open({.off_lease = OffLease::kReadable})) {
    if (weight.tensor == TensorId()) continue;
    const auto address = runtime_->AddressOf(weight.tensor);
    ASSERT_THAT(address, IsOk());
    EXPECT_TRUE(TextOf(*address) == BytesOf(weight.name)) << weight.name;
    ASSERT_THAT(Leased(weight), IsOk());
    EXPECT_TRUE(TextOf(*address) == BytesOf(weight.name)) << weight.name << " after a lease";
  }
}

TEST_F(OpenWeightsTest, NobodyWritesWeights) {
  runtime_.Start();
  const Weight weight = Open()[1];
  const auto refused =
      IsStatus(absl::StatusCode::kInvalidArgument, "tensor 'layers.0.bias' is only read");
  for (const AccessMode mode : {AccessMode::kReadWrite, AccessMode::kOverwrite}) {
    EXPECT_THAT(runtime_.Acquire({.tensor = weight.tensor, .mode = mode, .tier = kDram0}), refused);
  }
  EXPECT_THAT(runtime_->Write(weight.tensor, testing::Pattern(1, 12)), refused);
  EXPECT_THAT(runtime_->Discard(weight.tensor), refused);
  EXPECT_TRUE(Leased(weight).value() == BytesOf(weight.name));
}

TEST_F(OpenWeightsTest, FreedWeightsGiveTheirPagesBack) {
  runtime_.Start();
  for (int round = 0; round < 3; ++round) {
    const std::vector<Weight> weights = Open();
    for (const Weight& weight : weights) {
      if (weight.tensor == TensorId()) continue;
      ASSERT_THAT(Leased(weight), IsOk());
      ASSERT_THAT(runtime_->Free(weight.tensor), IsOk());
    }
    EXPECT_EQ(runtime_->GetStats().live_bytes, 0u);
  }
}

TEST_F(OpenWeightsTest, AFileThatChangesGivesNoBytes) {
  runtime_.Start();
  const std::vector<Weight> weights = Open();
  const std::string path = directory_.path() + "/1.safetensors";
  const auto time = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_THAT(Leased(weights[2]),
              IsStatus(absl::StatusCode::kDataLoss, "1.safetensors has changed since its tensors"));
  EXPECT_THAT(Leased(weights.back()), IsOk()) << "the other file is as it was";
}

TEST_F(OpenWeightsTest, ReadsOnThreadsAreToldOrRefused) {
  runtime_.options.nvme_bytes = Bytes(0);
  runtime_.options.io.io_uring = Use::kOff;
  runtime_.Start();
  const std::vector<Weight> weights = Open();
  EXPECT_TRUE(*Leased(weights[2]) == BytesOf(weights[2].name));
  std::vector<std::string> told;
  for (const FallbackEvent& event : runtime_->GetStats().fallbacks) {
    if (event.what == "io_uring") told.push_back(event.reason + "; " + event.chosen);
  }
  EXPECT_THAT(told, ElementsAre("off by option; reads of checkpoints on threads"));
}

/// Pages of the file that the page cache holds.
std::size_t CachedPages(const std::string& path) {
  const io::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::size_t bytes = std::filesystem::file_size(path);
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  std::vector<unsigned char> resident((bytes + 4095) / 4096);
  EXPECT_EQ(mincore(mapped, bytes, resident.data()), 0);
  munmap(mapped, bytes);
  return static_cast<std::size_t>(
      std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return page & 1; }));
}

/// Makes the page cache forget a file that was just written.
void Forget(const std::string& path) {
  const io::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(fsync(file.get()), 0);
  EXPECT_EQ(posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
}

TEST_F(OpenWeightsTest, ReadsLeaveNothingInThePageCache) {
  const std::string path = directory_.path() + "/1.safetensors";
  for (const Use direct : {Use::kAuto, Use::kOff}) {
    SCOPED_TRACE(ToString(direct));
    runtime_.options.io.direct = direct;
    runtime_.Start();
    Forget(path);
    std::size_t of_headers = 0;
    {
      const std::vector<Weight> weights = Open();
      of_headers = CachedPages(path);
      for (const Weight& weight : weights) {
        if (weight.tensor == TensorId()) continue;
        EXPECT_TRUE(*Leased(weight) == BytesOf(weight.name)) << weight.name;
      }
    }
    EXPECT_LE(CachedPages(path), of_headers);
    EXPECT_LT(of_headers, std::filesystem::file_size(path) / 4096 / 4);
  }
}

TEST_F(OpenWeightsTest, BufferedReadsAreToldOnceOrRefused) {
  const testing::TempDirectory memory("/dev/shm");
  first_.Write(memory.path() + "/1.safetensors");
  second_.Write(memory.path() + "/2.safetensors");
  runtime_.options.io.direct = Use::kAuto;
  runtime_.Start();
  for (const char* file : {"/1.safetensors", "/2.safetensors"}) {
    const auto weights = runtime_->OpenWeights(memory.path() + file, {});
    ASSERT_THAT(weights, IsOk());
    EXPECT_TRUE(*Leased(weights->back()) == BytesOf(weights->back().name));
  }
  std::vector<std::string> told;
  for (const FallbackEvent& event : runtime_->GetStats().fallbacks) {
    if (event.what == "o_direct") told.push_back(event.reason + "; " + event.chosen);
  }
  EXPECT_THAT(told,
              ElementsAre("the file system is memory (tmpfs); buffered reads of checkpoints, "
                          "dropped from the page cache"));
  runtime_.options.io.direct = Use::kRequire;
  runtime_.Start();
  EXPECT_THAT(runtime_->OpenWeights(memory.path() + "/1.safetensors", {}),
              IsStatus(absl::StatusCode::kFailedPrecondition,
                       "1.safetensors: O_DIRECT is required but refused: the file system is "
                       "memory (tmpfs); io.direct = \"auto\" allows buffered reads"));
  EXPECT_EQ(runtime_->GetStats().live_bytes, 0u);
}

TEST_F(OpenWeightsTest, WeightsThatCannotBeOpenedCreateNothing) {
  runtime_.Start();
  EXPECT_THAT(runtime_->OpenWeights(directory_.path() + "/none"),
              IsStatus(absl::StatusCode::kNotFound, "none does not exist"));
  std::filesystem::resize_file(directory_.path() + "/2.safetensors", 60);
  EXPECT_THAT(runtime_->OpenWeights(directory_.path()),
              IsStatus(absl::StatusCode::kInvalidArgument, "2.safetensors"));
  EXPECT_EQ(runtime_->GetStats().live_bytes, 0u);
}

}  // namespace
}  // namespace sluice
