// Tensors that are readable outside a lease (OffLease::kReadable).
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/runtime/engine/views/memory_touch.h"
#include "tests/support/child_process.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::IsStatus;
using testing::MemoryTouch;
using testing::Pattern;
using testing::RuntimeFixture;

constexpr std::uint64_t kPages = 100;  // more than dram has

TensorSpec ReadableTensor(const std::string& name, std::uint64_t bytes) {
  TensorSpec spec = testing::ByteTensor(name, bytes);
  spec.off_lease = OffLease::kReadable;
  return spec;
}

class OffLeaseTest : public ::testing::Test {
 protected:
  OffLeaseTest() { runtime_.options.hbm_bytes = Bytes(0); }

  TensorId Make(const TensorSpec& spec) {
    const auto tensor = runtime_->CreateTensor(spec);
    EXPECT_THAT(tensor, IsOk());
    return tensor.value_or(TensorId{});
  }
  std::span<const std::byte> ViewOf(TensorId tensor) {
    const auto view = runtime_->AddressOf(tensor);
    EXPECT_THAT(view, IsOk());
    return view.ok() ? *view : std::span<const std::byte>();
  }
  SLUICE_READS_BESIDE_MAPPINGS static std::byte ByteAt(const volatile std::byte* byte) {
    return static_cast<std::byte>(*reinterpret_cast<const volatile std::uint8_t*>(byte));
  }
  std::vector<std::byte> Shown(TensorId tensor) {
    const auto view = ViewOf(tensor);
    std::vector<std::byte> bytes(view.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = ByteAt(view.data() + i);
    return bytes;
  }
  /// Makes other pages take every frame of dram.
  void Displace() {
    constexpr std::uint64_t kBytes = 3 * RuntimeFixture::kDramPages * kPage;
    const TensorId other = runtime_.Make("other", kBytes);
    runtime_.Write(other, Pattern(99, kBytes));
    ASSERT_THAT(runtime_->Free(other), IsOk());
  }

  RuntimeFixture runtime_;
  MemoryTouch touch_;
};

TEST_F(OffLeaseTest, AWriteThatIsHandedOverIsShown) {
  runtime_.Start();
  const TensorId written = Make(ReadableTensor("written", 20 * kPage));
  const TensorId next = runtime_.Make("next", 20 * kPage);  // needs the frames of the other
  Op op = runtime_->BeginOp({.name = "op"});
  auto leases = op.AcquireAll({{.tensor = written, .mode = AccessMode::kOverwrite}}).Take();
  ASSERT_THAT(leases, IsOk());
  const std::vector<std::byte> bytes = Pattern(7, 20 * kPage);
  std::copy(bytes.begin(), bytes.end(), leases->front().Contiguous().begin());
  auto others =
      op.AcquireAll({{.tensor = next, .mode = AccessMode::kOverwrite}}, *std::move(leases)).Take();
  ASSERT_THAT(others, IsOk());
  EXPECT_EQ(Shown(written), bytes);
}

TEST_F(OffLeaseTest, UnwrittenPagesReadAsZeros) {
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", 5 * kPage + 100));
  EXPECT_EQ(ViewOf(tensor).size(), 5 * kPage + 100);
  EXPECT_EQ(Shown(tensor), std::vector<std::byte>(5 * kPage + 100));
  EXPECT_FALSE(touch_.Writable(ViewOf(tensor).data()));
  // The zeros stay after the tensor was paged in and has left again.
  EXPECT_EQ(runtime_.Read(tensor), std::vector<std::byte>(5 * kPage + 100));
  Displace();
  EXPECT_EQ(Shown(tensor), std::vector<std::byte>(5 * kPage + 100));
}

TEST_F(OffLeaseTest, PagesAreShownInDramAndInNvme) {
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", kPages * kPage));
  for (int round = 1; round <= 5; ++round) {
    runtime_.Write(tensor, Pattern(round, kPages * kPage));
    ASSERT_EQ(Shown(tensor), Pattern(round, kPages * kPage)) << "round " << round;
    ASSERT_EQ(runtime_.Read(tensor), Pattern(round, kPages * kPage)) << "round " << round;
    ASSERT_EQ(Shown(tensor), Pattern(round, kPages * kPage)) << "round " << round;
  }
  EXPECT_GT(runtime_->GetStats().io.drives.at(0).writes, kPages);
  EXPECT_THAT(runtime_.listener.fallbacks(),
              ::testing::Not(::testing::Contains(Field(&FallbackEvent::what, "off_lease"))));
}

TEST_F(OffLeaseTest, ATensorIsNotWrittenFromWhatItShowsThere) {
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", kPages * kPage));
  runtime_.Write(tensor, Pattern(1, kPages * kPage));
  const auto own = ViewOf(tensor);
  EXPECT_THAT(runtime_->Write(tensor, own),
              IsStatus(absl::StatusCode::kInvalidArgument, "tensor 't' are those that it shows"));
  EXPECT_THAT(runtime_->Write(tensor, own.subspan(kPage, 2 * kPage), 2 * kPage),
              IsStatus(absl::StatusCode::kInvalidArgument, "write a copy of them"));
  EXPECT_EQ(runtime_.Read(tensor), Pattern(1, kPages * kPage));
  // Bytes of another part of the tensor, or of another tensor, are allowed.
  std::vector<std::byte> expected = Pattern(1, kPages * kPage);
  std::copy_n(expected.begin(), kPages / 2 * kPage, expected.begin() + kPages / 2 * kPage);
  EXPECT_THAT(runtime_->Write(tensor, own.first(kPages / 2 * kPage), kPages / 2 * kPage), IsOk());
  EXPECT_EQ(runtime_.Read(tensor), expected);
  const TensorId other = Make(ReadableTensor("other", kPages * kPage));
  EXPECT_THAT(runtime_->Write(other, own), IsOk());
  EXPECT_EQ(runtime_.Read(other), expected);
}

TEST_F(OffLeaseTest, AWriteLeaseWritesAtTheAddressAndOnlyWhileItLives) {
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", 3 * kPage));
  const std::byte* const at = ViewOf(tensor).data();
  for (const bool contiguous : {true, false}) {
    auto lease = runtime_.Acquire({.tensor = tensor,
                                   .range = {kPage, kPage},
                                   .mode = AccessMode::kReadWrite,
                                   .contiguous = contiguous});
    ASSERT_THAT(lease, IsOk());
    EXPECT_FALSE(touch_.Writable(at));
    EXPECT_EQ(touch_.Writable(at + kPage), contiguous);
    EXPECT_FALSE(touch_.Writable(at + 2 * kPage));
    if (contiguous) {
      EXPECT_EQ(lease->Contiguous().data(), at + kPage);
    }
    const auto value = static_cast<std::byte>(contiguous ? 7 : 8);
    for (const auto span : lease->Spans()) std::fill(span.begin(), span.end(), value);
    lease->Release();
    EXPECT_FALSE(touch_.Writable(at + kPage));
    EXPECT_EQ(at[kPage], value);
    EXPECT_EQ(at[2 * kPage - 1], value);
  }
  auto lease = runtime_.Acquire({.tensor = tensor, .mode = AccessMode::kRead});
  ASSERT_THAT(lease, IsOk());
  EXPECT_FALSE(touch_.Writable(at + kPage)) << "a read lease allows no write";
}

TEST_F(OffLeaseTest, APageOfTwoLeasesIsWritableUntilBothHaveEnded) {
  runtime_.Start();
  const std::vector<TensorSpec> specs = {ReadableTensor("a", 3 * kPage / 2),
                                         ReadableTensor("b", 3 * kPage / 2)};
  const auto tensors = runtime_->CreateTensors(specs);
  ASSERT_THAT(tensors, IsOk());
  Op op = runtime_->BeginOp({.name = "both"});
  const std::vector<Access> accesses = {{.tensor = tensors->at(0), .mode = AccessMode::kReadWrite},
                                        {.tensor = tensors->at(1), .mode = AccessMode::kReadWrite}};
  auto leases = op.AcquireAll(accesses).Take();
  ASSERT_THAT(leases, IsOk());
  const std::byte* const a = ViewOf(tensors->at(0)).data();
  const std::byte* const b = ViewOf(tensors->at(1)).data();
  ASSERT_EQ(a + 3 * kPage / 2, b);
  leases->at(0).Release();
  EXPECT_FALSE(touch_.Writable(a));
  EXPECT_TRUE(touch_.Writable(a + kPage)) << "the page that the other lease has, too";
  EXPECT_TRUE(touch_.Writable(b));
  EXPECT_TRUE(touch_.Writable(b + kPage));
  leases->at(1).Release();
  EXPECT_FALSE(touch_.Writable(b));
  EXPECT_FALSE(touch_.Writable(b + kPage));
}

TEST_F(OffLeaseTest, DiscardedPagesReadAsZeros) {
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", kPages * kPage));
  runtime_.Write(tensor, Pattern(1, kPages * kPage));
  std::vector<std::byte> expected = Pattern(1, kPages * kPage);
  // One in nvme, one in dram.
  for (const std::uint64_t page : {std::uint64_t{3}, kPages - 1}) {
    ASSERT_THAT(runtime_->Discard(tensor, {page * kPage, kPage}), IsOk());
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(page * kPage), kPage, std::byte{});
  }
  EXPECT_EQ(runtime_.Read(tensor), expected);
  EXPECT_EQ(Shown(tensor), expected);
}

TEST_F(OffLeaseTest, ADiscardThatWaitsForALeaseActsWhenItEnds) {
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", kPage));
  auto lease = runtime_.Acquire({.tensor = tensor, .mode = AccessMode::kReadWrite});
  ASSERT_THAT(lease, IsOk());
  std::fill_n(lease->Contiguous().begin(), kPage, std::byte{5});
  ASSERT_THAT(runtime_->Discard(tensor), IsOk());
  EXPECT_EQ(Shown(tensor), std::vector<std::byte>(kPage, std::byte{5}));
  lease->Release();
  EXPECT_EQ(runtime_.Read(tensor), std::vector<std::byte>(kPage));
  EXPECT_EQ(Shown(tensor), std::vector<std::byte>(kPage));
}

TEST_F(OffLeaseTest, PagesOfHbmAreShown) {
  runtime_.options.hbm_bytes = Bytes(RuntimeFixture::kHbmPages * kPage);
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", kPages * kPage));
  for (int round = 1; round <= 3; ++round) {
    runtime_.Write(tensor, Pattern(round, kPages * kPage), 0, kHbm0);
    ASSERT_EQ(Shown(tensor), Pattern(round, kPages * kPage)) << "round " << round;
    ASSERT_EQ(runtime_.Read(tensor, kHbm0), Pattern(round, kPages * kPage)) << "round " << round;
    ASSERT_EQ(Shown(tensor), Pattern(round, kPages * kPage)) << "round " << round;
    EXPECT_FALSE(touch_.Writable(ViewOf(tensor).data()));
  }
}

TEST_F(OffLeaseTest, WithoutNvmePagesAreShownInDram) {
  runtime_.options.nvme_bytes = Bytes(0);
  runtime_.options.hbm_bytes = Bytes(4 * kPage);
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", 8 * kPage));
  runtime_.Write(tensor, Pattern(1, 8 * kPage), 0, kHbm0);
  EXPECT_EQ(Shown(tensor), Pattern(1, 8 * kPage));
}

TEST_F(OffLeaseTest, FramesThatAreReservedOrGivenBackAreShownNoMore) {
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", 16 * kPage));
  runtime_.Write(tensor, Pattern(1, 16 * kPage));
  EXPECT_EQ(runtime_.Read(tensor), Pattern(1, 16 * kPage));
  {
    const auto reservation = runtime_->Reserve(kDram0, Bytes(30 * kPage));
    ASSERT_THAT(reservation, IsOk());
    for (const auto span : reservation->Spans()) std::fill(span.begin(), span.end(), std::byte{9});
    EXPECT_EQ(Shown(tensor), Pattern(1, 16 * kPage));
  }
  EXPECT_EQ(runtime_.Read(tensor), Pattern(1, 16 * kPage));
  ASSERT_THAT(runtime_->SetBudget(kDram0, Bytes(2 * kPage)), IsOk());
  EXPECT_EQ(Shown(tensor), Pattern(1, 16 * kPage));
  ASSERT_THAT(runtime_->SetBudget(kDram0, Bytes(32 * kPage)), IsOk());
  EXPECT_EQ(Shown(tensor), Pattern(1, 16 * kPage));
}

TEST_F(OffLeaseTest, ALostPageIsHiddenUntilItIsWrittenAgain) {
  runtime_.hooks.wrap_store = [this](auto store) { return runtime_.faults.Wrap(std::move(store)); };
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", 2 * kPage));
  runtime_.Write(tensor, Pattern(1, 2 * kPage));
  Displace();
  const std::byte* const at = ViewOf(tensor).data();
  runtime_.faults.FailReads(absl::DataLossError("gone"));
  EXPECT_THAT(runtime_.Acquire({.tensor = tensor, .range = {0, kPage}}),
              IsStatus(absl::StatusCode::kDataLoss, "gone"));
  runtime_.faults.FailReads(absl::OkStatus());
  EXPECT_EQ(runtime_.Read(Make(ReadableTensor("after", kPage))), std::vector<std::byte>(kPage));
  EXPECT_FALSE(touch_.Readable(at)) << "no wrong bytes, but none";
  EXPECT_TRUE(touch_.Readable(at + kPage));
  runtime_.Write(tensor, Pattern(2, kPage));
  EXPECT_TRUE(std::ranges::equal(Pattern(2, kPage), ViewOf(tensor).first(kPage)));
}

TEST_F(OffLeaseTest, AReadThatFailsAndPassesShowsTheSlotMeanwhile) {
  runtime_.hooks.wrap_store = [this](auto store) { return runtime_.faults.Wrap(std::move(store)); };
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", kPage));
  runtime_.Write(tensor, Pattern(1, kPage));
  Displace();
  runtime_.faults.FailReads(absl::UnavailableError("later"));
  EXPECT_FALSE(runtime_.Acquire({.tensor = tensor}).ok());
  EXPECT_EQ(Shown(tensor), Pattern(1, kPage));
  runtime_.faults.FailReads(absl::OkStatus());
  EXPECT_EQ(runtime_.Read(tensor), Pattern(1, kPage));
  EXPECT_EQ(Shown(tensor), Pattern(1, kPage));
}

TEST_F(OffLeaseTest, ASlotThatIsGivenUpIsShownNoMore) {
  runtime_.options.nvme_bytes = Bytes(64 * kPage);
  runtime_.hooks.wrap_store = [this](auto store) { return runtime_.faults.Wrap(std::move(store)); };
  runtime_.Start();
  TensorSpec spec = ReadableTensor("t", 4 * kPage);
  spec.reproduce = [](ByteRange range, std::span<std::byte> out) {
    const auto content = Pattern(1, 4 * kPage);
    std::copy_n(
        content.begin() + static_cast<std::ptrdiff_t>(range.offset), out.size(), out.begin());
    return absl::OkStatus();
  };
  const TensorId tensor = Make(spec);
  runtime_.Write(tensor, Pattern(1, 4 * kPage));
  const TensorId other = runtime_.Make("other", 40 * kPage);
  runtime_.Write(other, Pattern(2, 40 * kPage));
  // The slots lose their pages, which are made again in frames that no lease has mapped.
  runtime_.faults.FailReads(absl::DataLossError("gone"));
  const auto lease = runtime_.Acquire({.tensor = tensor, .contiguous = false});
  runtime_.faults.FailReads(absl::OkStatus());
  ASSERT_THAT(lease, IsOk());
  for (int round = 3; round < 9; ++round) {  // other pages take the lost slots
    runtime_.Write(other, Pattern(round, 40 * kPage));
    EXPECT_EQ(Shown(tensor), Pattern(1, 4 * kPage)) << "round " << round;
  }
}

TEST_F(OffLeaseTest, PagesInDramAreShownAndTheOthersHiddenIfSlotsAreNotMapped) {
  runtime_.options.memory.off_lease = Use::kOff;
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", kPage));
  const TensorId another = Make(ReadableTensor("another", kPage));
  EXPECT_EQ(Shown(tensor), std::vector<std::byte>(kPage));
  runtime_.Write(tensor, Pattern(1, kPage));
  EXPECT_EQ(Shown(tensor), Pattern(1, kPage));
  Displace();
  EXPECT_FALSE(touch_.Readable(ViewOf(tensor).data()));
  for (const bool contiguous : {true, false}) {
    ASSERT_THAT(runtime_.Acquire({.tensor = tensor, .tier = kDram0, .contiguous = contiguous}),
                IsOk());
    // A lease that is not contiguous does not wait for the mapper, which does one job after
    // another.
    if (!contiguous) {
      ASSERT_THAT(runtime_.Acquire({.tensor = another, .tier = kDram0}), IsOk());
    }
    EXPECT_EQ(Shown(tensor), Pattern(1, kPage));
    Displace();
    EXPECT_FALSE(touch_.Readable(ViewOf(tensor).data()));
  }
  std::vector<FallbackEvent> told = runtime_.listener.fallbacks();
  std::erase_if(told, [](const FallbackEvent& event) { return event.what != "off_lease"; });
  EXPECT_THAT(told, ElementsAre(Field(&FallbackEvent::reason, "pages in nvme0: off by option")));
}

TEST_F(OffLeaseTest, AForbiddenFallbackRefusesTheTensor) {
  runtime_.options.memory.off_lease = Use::kRequire;
  runtime_.hooks.wrap_store = [this](auto store) { return runtime_.faults.Wrap(std::move(store)); };
  runtime_.faults.RefuseMapping(absl::UnavailableError("ENODEV"));
  runtime_.Start();
  EXPECT_THAT(runtime_->CreateTensor(ReadableTensor("t", kPage)),
              IsStatus(absl::StatusCode::kFailedPrecondition,
                       "every page readable outside a lease is required but refused: pages in "
                       "nvme0: ENODEV; memory.off_lease = \"auto\" allows a SIGSEGV where they "
                       "are read outside a lease"));
  EXPECT_THAT(runtime_->CreateTensor(testing::ByteTensor("none", kPage)), IsOk());
}

TEST_F(OffLeaseTest, MorePagesThanMappingsAreRefused) {
  runtime_.Start();
  std::uint64_t mappings_max = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> mappings_max;
  EXPECT_THAT(runtime_->CreateTensor(ReadableTensor("t", mappings_max * kPage)),
              IsStatus(absl::StatusCode::kResourceExhausted,
                       "vm.max_map_count allows " + std::to_string(mappings_max)));
}

TEST_F(OffLeaseTest, BadSpecsAreRefusedByName) {
  runtime_.options.hbm_bytes = Bytes(8 * kPage);
  runtime_.Start();
  TensorSpec spec = ReadableTensor("t", kPage);
  spec.lowest = TierKind::kHbm;
  EXPECT_THAT(runtime_->CreateTensor(spec),
              IsStatus(absl::StatusCode::kInvalidArgument, "'t' is never in dram"));
  spec.off_lease = OffLease::kNone;
  const TensorId in_hbm = Make(spec);
  EXPECT_THAT(runtime_->AddressOf(in_hbm),
              IsStatus(absl::StatusCode::kInvalidArgument, "'t' has no address in dram"));
  EXPECT_THAT(runtime_->CreateTensors(std::vector<TensorSpec>{ReadableTensor("a", kPage),
                                                              testing::ByteTensor("b", kPage)}),
              IsStatus(absl::StatusCode::kInvalidArgument, "'a' and 'b'"));
  EXPECT_THAT(runtime_->AddressOf(TensorId{99}), IsStatus(absl::StatusCode::kNotFound, "99"));
}

TEST_F(OffLeaseTest, ATensorThatIsNotReadableHasItsAddressAndNothingThere) {
  runtime_.Start();
  const TensorId tensor = Make(testing::ByteTensor("t", kPage));
  EXPECT_FALSE(touch_.Readable(ViewOf(tensor).data()));
  const auto lease = runtime_.Acquire({.tensor = tensor});
  ASSERT_THAT(lease, IsOk());
  EXPECT_EQ(lease->Contiguous().data(), ViewOf(tensor).data());
}

TEST_F(OffLeaseTest, AChildDoesNotHaveTheBytes) {
  SLUICE_SKIP_FORK_UNDER_SANITIZERS();
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", kPages * kPage));
  runtime_.Write(tensor, Pattern(1, 2 * kPage));
  const auto view = ViewOf(tensor);
  EXPECT_EQ(testing::RunInChild([&]() -> std::string {
              for (std::uint64_t page = 0; page < kPages; ++page) {
                if (touch_.Readable(view.data() + page * kPage)) return "a page is there";
              }
              return "none";
            }),
            "none");
}

TEST_F(OffLeaseTest, ALeaseMayOutliveTheRuntime) {
  runtime_.Start();
  const TensorId tensor = Make(ReadableTensor("t", kPage));
  auto lease = runtime_.Acquire({.tensor = tensor, .mode = AccessMode::kReadWrite});
  ASSERT_THAT(lease, IsOk());
  runtime_.Stop();
  lease->Release();
}

class OffLeaseHomeTest : public OffLeaseTest {
 protected:
  static constexpr std::uint64_t kBytes = 40 * kPage + 500;

  /// A tensor whose home is `offset` bytes into a file.
  absl::StatusOr<TensorId> MakeAt(std::uint64_t offset) {
    const std::string path = files_.path() + "/home";
    const auto bytes = Pattern(7, kBytes);
    std::ofstream file(path, std::ios::binary);
    file << std::string(offset, 'x');
    file.write(reinterpret_cast<const char*>(bytes.data()), kBytes);
    file.close();
    TensorSpec spec = ReadableTensor("t", kBytes);
    spec.file = FileHome{path, offset};
    return runtime_->CreateTensor(spec);
  }

  testing::TempDirectory files_;
};

TEST_F(OffLeaseHomeTest, AFileHomeIsShownUntilAPageIsWritten) {
  runtime_.Start();
  const auto tensor = MakeAt(3 * kPage);
  ASSERT_THAT(tensor, IsOk());
  std::vector<std::byte> expected = Pattern(7, kBytes);
  EXPECT_EQ(Shown(*tensor), expected);
  EXPECT_EQ(runtime_.Read(*tensor), expected);
  EXPECT_EQ(Shown(*tensor), expected);
  const auto written = Pattern(8, kPage);
  for (const std::uint64_t page : {1, 5, 30}) {
    runtime_.Write(*tensor, written, page * kPage);
    std::ranges::copy(written, expected.begin() + static_cast<std::ptrdiff_t>(page * kPage));
    EXPECT_EQ(Shown(*tensor), expected);
  }
  Displace();
  EXPECT_EQ(Shown(*tensor), expected);
  EXPECT_EQ(runtime_.Read(*tensor), expected);
  ASSERT_THAT(runtime_->Discard(*tensor, {9 * kPage, kPage}), IsOk());
  std::fill_n(expected.begin() + 9 * kPage, kPage, std::byte{});
  EXPECT_EQ(runtime_.Read(*tensor), expected);
  EXPECT_EQ(Shown(*tensor), expected);
}

TEST_F(OffLeaseHomeTest, AHomeThatCannotBeMappedIsAFallback) {
  runtime_.Start();
  const auto tensor = MakeAt(100);
  ASSERT_THAT(tensor, IsOk());
  EXPECT_FALSE(touch_.Readable(ViewOf(*tensor).data()));
  EXPECT_EQ(runtime_.Read(*tensor), Pattern(7, kBytes));
  // A written page is in a slot, and shown.
  runtime_.Write(*tensor, Pattern(8, kPage));
  Displace();
  EXPECT_TRUE(std::ranges::equal(Pattern(8, kPage), ViewOf(*tensor).first(kPage)));
  EXPECT_FALSE(touch_.Readable(ViewOf(*tensor).data() + kPage));
  const std::vector<FallbackEvent> told = runtime_.listener.fallbacks();
  EXPECT_THAT(told,
              ::testing::Contains(
                  Field(&FallbackEvent::reason,
                        ::testing::AllOf(HasSubstr("the file home of tensor 't'"),
                                         HasSubstr("byte 100 of a file is no multiple of 4096")))));
}

TEST_F(OffLeaseHomeTest, AHomeThatCannotBeMappedMayBeForbidden) {
  runtime_.options.memory.off_lease = Use::kRequire;
  runtime_.Start();
  EXPECT_THAT(MakeAt(100),
              IsStatus(absl::StatusCode::kFailedPrecondition, "the file home of tensor 't'"));
  EXPECT_THAT(MakeAt(kPage), IsOk());
}

}  // namespace
}  // namespace sluice
