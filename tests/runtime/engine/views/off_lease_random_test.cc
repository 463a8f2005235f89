// Content shown outside a lease, against a model, under budgets of a few pages.
#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::Pattern;
using testing::RuntimeFixture;

constexpr std::uint64_t kSmallDram = 9;
constexpr std::uint64_t kTransitPages = 4;  ///< frames that dram keeps back beside hbm
constexpr int kSteps = 400;

struct Modelled {
  TensorId tensor;
  std::vector<std::byte> bytes;
  std::span<const std::byte> view;  ///< empty: not readable outside a lease
};

/// A Runtime, and what its tensors hold.
class Model {
 public:
  Model(std::uint64_t seed, bool hbm, bool drives)
      : random_(seed), dram_pages_(kSmallDram + (hbm ? kTransitPages : 0)) {
    runtime_.options.hbm_bytes = Bytes(hbm ? 4 * kPage : 0);
    runtime_.options.dram_bytes = Bytes(dram_pages_ * kPage);
    runtime_.options.nvme_bytes = Bytes(160 * kPage);
    if (drives) {
      runtime_.options.io.more_directories = {second_.path()};
      runtime_.hooks.drive_rates = {1e9, 2e9};
    }
    if (hbm) tiers_.push_back(kHbm0);
    runtime_.Start();
    for (int i = 0; i < 4; ++i) Create();
    CreateWithHome();
  }

  void Step() {
    if (Draw(6) == 0) return Draw(2) == 0 ? Hint() : GiveUp();
    const auto what = Draw(100);
    if (what < 40) return Change();
    if (what < 60) return ReadSome();
    if (what < 70) return WriteByCopy();
    if (what < 78) return DiscardSome();
    if (what < 84) return Reserve();
    if (what < 90) return Resize();
    if (what < 95 || tensors_.size() < 3) return Create();
    FreeOne();
  }

  void Compare(const std::string& when) {
    for (const Modelled& each : tensors_) {
      if (each.view.empty()) continue;
      ASSERT_EQ(each.view.size(), each.bytes.size());
      const std::size_t wrong = FirstWrong(each.view.data(), each.bytes.data(), each.bytes.size());
      ASSERT_EQ(wrong, each.bytes.size())
          << when << ": tensor " << each.tensor.value << " differs from byte " << wrong;
    }
  }

 private:
  SLUICE_READS_BESIDE_MAPPINGS static std::size_t FirstWrong(const volatile void* view,
                                                             const std::byte* bytes,
                                                             std::size_t size) {
    const auto* const shown = static_cast<const volatile std::uint8_t*>(view);
    for (std::size_t i = 0; i < size; ++i) {
      if (static_cast<std::byte>(shown[i]) != bytes[i]) return i;
    }
    return size;
  }

  std::uint64_t Draw(std::uint64_t below) { return random_() % below; }
  Modelled& One() { return tensors_[Draw(tensors_.size())]; }
  TierId Tier() { return tiers_[Draw(tiers_.size())]; }
  ByteRange Range(const Modelled& modelled, std::uint64_t bytes_max) {
    const std::uint64_t offset = Draw(modelled.bytes.size());
    return {offset, 1 + Draw(std::min(bytes_max, modelled.bytes.size() - offset))};
  }

  void Add(TensorId tensor, std::vector<std::byte> bytes, bool readable) {
    Modelled modelled{tensor, std::move(bytes), {}};
    const auto view = runtime_->AddressOf(tensor);
    ASSERT_THAT(view, IsOk());
    if (readable) modelled.view = *view;
    tensors_.push_back(std::move(modelled));
  }

  /// One tensor, or two that share a page.
  void Create() {
    if (tensors_.size() > 8) return FreeOne();
    const bool readable = Draw(4) != 0;
    std::vector<TensorSpec> specs;
    for (std::uint64_t i = 0; i <= Draw(2); ++i) {
      specs.push_back(testing::ByteTensor("t" + std::to_string(i), 1 + Draw(12 * kPage)));
      specs.back().off_lease = readable ? OffLease::kReadable : OffLease::kNone;
    }
    const auto made = runtime_->CreateTensors(specs);
    ASSERT_THAT(made, IsOk());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Add(made->at(i), std::vector<std::byte>(SizeOf(specs[i]).count()), readable);
    }
  }

  void CreateWithHome() {
    const std::string path = second_.path() + "/home";
    const auto bytes = Pattern(5, 6 * kPage + 17);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    TensorSpec spec = testing::ByteTensor("home", bytes.size());
    spec.file = FileHome{path, 0};
    spec.off_lease = OffLease::kReadable;
    const auto made = runtime_->CreateTensor(spec);
    ASSERT_THAT(made, IsOk());
    Add(*made, bytes, true);
  }

  void FreeOne() {
    const auto gone = tensors_.begin() + static_cast<std::ptrdiff_t>(Draw(tensors_.size()));
    ASSERT_THAT(runtime_->Free(gone->tensor), IsOk());
    tensors_.erase(gone);
  }

  void Change() {
    Modelled& modelled = One();
    const bool contiguous = Draw(2) == 0;
    const bool all = Draw(2) == 0;
    const ByteRange range = Range(modelled, 2 * kPage);
    auto lease = runtime_.Acquire({.tensor = modelled.tensor,
                                   .range = range,
                                   .mode = all ? AccessMode::kOverwrite : AccessMode::kReadWrite,
                                   .tier = Tier(),
                                   .contiguous = contiguous});
    ASSERT_THAT(lease, IsOk());
    std::uint64_t at = range.offset;
    for (const std::span<std::byte> span : lease->Spans()) {
      const auto first = modelled.bytes.begin() + static_cast<std::ptrdiff_t>(at);
      for (std::size_t i = 0; i < span.size(); ++i) {
        if (all || Draw(3) == 0) first[static_cast<std::ptrdiff_t>(i)] = std::byte(random_());
      }
      const auto target = contiguous ? lease->Contiguous().subspan(at - range.offset) : span;
      std::copy_n(first, span.size(), target.begin());
      at += span.size();
    }
    lease->Release();
    Compare("after a write");
  }

  void ReadSome() {
    const Modelled& modelled = One();
    const ByteRange range = Range(modelled, 2 * kPage);
    const auto lease = runtime_.Acquire(
        {.tensor = modelled.tensor, .range = range, .tier = Tier(), .contiguous = Draw(2) == 0});
    ASSERT_THAT(lease, IsOk());
    std::uint64_t at = range.offset;
    for (const std::span<std::byte> span : lease->Spans()) {
      ASSERT_TRUE(std::equal(
          span.begin(), span.end(), modelled.bytes.begin() + static_cast<std::ptrdiff_t>(at)));
      at += span.size();
    }
    Compare("during a read");
  }

  void WriteByCopy() {
    Modelled& modelled = One();
    const ByteRange range = Range(modelled, 12 * kPage);
    const auto bytes = Pattern(random_(), range.bytes);
    ASSERT_THAT(runtime_->Write(modelled.tensor, bytes, range.offset), IsOk());
    std::ranges::copy(bytes, modelled.bytes.begin() + static_cast<std::ptrdiff_t>(range.offset));
    Compare("after a copy");
  }

  Access OverwriteOf(const Modelled& modelled) {
    return {.tensor = modelled.tensor,
            .range = Range(modelled, 4 * kPage),
            .mode = AccessMode::kOverwrite,
            .tier = Tier(),
            .contiguous = Draw(2) == 0};
  }

  /// Frames for an overwrite have the bytes of whoever had them before.
  void Hint() {
    Access overwrite = OverwriteOf(One());
    for (const bool contiguous : {overwrite.contiguous, true}) {  // an address at once, or later
      overwrite.contiguous = contiguous;
      ASSERT_THAT(runtime_->Prefetch({&overwrite, 1}), IsOk());
      Flush();
      Compare("after a hint");
    }
  }

  /// Asks for an overwrite that waits for a lease, and gives it up.
  void GiveUp() {
    Modelled& held = One();
    auto lease = runtime_.Acquire(
        {.tensor = held.tensor, .range = {0, 1}, .mode = AccessMode::kReadWrite, .tier = kDram0});
    ASSERT_THAT(lease, IsOk());
    Op op = runtime_->BeginOp({.name = "waits", .lane = "other"});
    const Access overwrite = OverwriteOf(One());
    Ticket ticket = op.AcquireAll(
        {overwrite,
         {.tensor = held.tensor, .range = {0, 1}, .mode = AccessMode::kReadWrite, .tier = kDram0}});
    Flush();
    Compare("while a ticket waits");
    ticket.Cancel();
    lease->Release();
    Flush();
    Compare("after a ticket was given up");
  }

  /// The discard covers one tensor whole, since only whole pages of one tensor are discarded.
  void DiscardSome() {
    Modelled& modelled = One();
    ASSERT_THAT(runtime_->Discard(modelled.tensor), IsOk());
    std::vector<std::byte> left(modelled.bytes.size());
    ASSERT_THAT(runtime_->Read(modelled.tensor, left), IsOk());
    for (std::size_t i = 0; i < left.size(); ++i) {  // pages that it shares stay
      ASSERT_TRUE(left[i] == modelled.bytes[i] || left[i] == std::byte{});
    }
    modelled.bytes = std::move(left);
    Flush();
    Compare("after a discard");
  }

  /// Waits for the mapper's jobs. A change of a budget is one of them, so it comes after the
  /// others.
  void Flush() { ASSERT_THAT(runtime_->SetBudget(kDram0, Bytes(dram_pages_ * kPage)), IsOk()); }

  void Reserve() {
    const auto reservation = runtime_->Reserve(kDram0, Bytes(3 * kPage));
    ASSERT_THAT(reservation, IsOk());
    for (const auto span : reservation->Spans()) std::ranges::fill(span, std::byte{0xee});
    Compare("during a reservation");
  }

  void Resize() {
    ASSERT_THAT(runtime_->SetBudget(kDram0, Bytes((dram_pages_ - Draw(3)) * kPage)), IsOk());
    Compare("after a change of a budget");
  }

  std::mt19937_64 random_;
  const std::uint64_t dram_pages_;
  testing::TempDirectory second_;
  RuntimeFixture runtime_;
  std::vector<TierId> tiers_ = {kDram0};
  std::vector<Modelled> tensors_;
};

void CompareWithModel(std::uint64_t seed, bool hbm, bool drives) {
  SCOPED_TRACE("seed " + std::to_string(seed) + (hbm ? ", hbm" : "") +
               (drives ? ", two drives" : ""));
  Model model(seed, hbm, drives);
  for (int step = 0; step < kSteps && !::testing::Test::HasFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    model.Step();
    model.Compare("after a step");
  }
}

void CompareSeeds(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last && !::testing::Test::HasFailure(); ++seed) {
    CompareWithModel(seed, /*hbm=*/seed % 2 == 0, /*drives=*/seed % 3 == 0);
  }
}

/// Seed 6 has both hbm and two drives.
TEST(OffLeaseRandomTest, ShowsWhatAModelHolds) {
  testing::kCaseStride > 1 ? CompareSeeds(6, 6) : CompareSeeds(1, 3);
}
TEST(SlowOffLeaseRandomTest, ShowsWhatAModelHolds) { CompareSeeds(4, 60); }

// Words of pages that tell where they belong, and which version they are.

constexpr std::uint64_t kWords = kPage / sizeof(std::uint64_t);
constexpr std::uint64_t kReadPages = 24;

std::uint64_t WordOf(std::uint64_t page, std::uint64_t version) { return (page << 32) | version; }

/// A tensor whose pages are written in turn while others read it.
class Versions {
 public:
  Versions(std::uint64_t seed, bool hbm) : random_(seed), hbm_(hbm) {
    runtime_.options.hbm_bytes = Bytes(hbm ? 4 * kPage : 0);
    runtime_.options.dram_bytes = Bytes(kSmallDram * kPage);
    runtime_.Start();
    TensorSpec spec = testing::ByteTensor("versions", kReadPages * kPage);
    spec.off_lease = OffLease::kReadable;
    const auto made = runtime_->CreateTensor(spec);
    EXPECT_THAT(made, IsOk());
    tensor_ = *made;
    view_ = *runtime_->AddressOf(tensor_);
    other_ = runtime_.Make("other", 20 * kPage);
    for (std::uint64_t page = 0; page < kReadPages; ++page) WritePage(page);
  }

  void Work(int steps) {
    std::thread reader([this, seed = random_()] { ReadAll(seed); });
    for (int step = 0; step < steps && !failed_; ++step) {
      if (random_() % 3 == 0) {
        WritePage(random_() % kReadPages);
      } else {
        Touch(random_() % 2 == 0 ? tensor_ : other_, random_() % 20);
      }
    }
    done_ = true;
    reader.join();
    EXPECT_EQ(failure_, "");
    EXPECT_GT(pages_read_, 100u);
  }

 private:
  void WritePage(std::uint64_t page) {
    const std::uint64_t version = ++begun_[page];
    auto lease = runtime_.Acquire({.tensor = tensor_,
                                   .range = {page * kPage, kPage},
                                   .mode = AccessMode::kReadWrite,
                                   .tier = hbm_ && random_() % 2 == 0 ? kHbm0 : kDram0,
                                   .contiguous = random_() % 2 == 0});
    ASSERT_THAT(lease, IsOk());
    auto* const words = reinterpret_cast<std::uint64_t*>(lease->Spans().front().data());
    for (std::uint64_t i = 0; i < kWords; ++i) {
      __atomic_store_n(words + i, WordOf(page, version), __ATOMIC_RELAXED);
    }
    lease->Release();
    released_[page] = version;
  }

  SLUICE_READS_BESIDE_MAPPINGS static std::uint64_t WordAt(const volatile std::uint64_t* word) {
    return *word;
  }

  /// Reads a page, or overwrites one that nobody reads.
  void Touch(TensorId tensor, std::uint64_t page) {
    const bool write = tensor == other_;
    auto lease = runtime_.Acquire({.tensor = tensor,
                                   .range = {page * kPage, kPage},
                                   .mode = write ? AccessMode::kOverwrite : AccessMode::kRead,
                                   .tier = hbm_ && random_() % 2 == 0 ? kHbm0 : kDram0,
                                   .contiguous = random_() % 2 == 0});
    ASSERT_THAT(lease, IsOk());
    if (write) std::ranges::fill(lease->Spans().front(), std::byte{0xbb});
  }

  void ReadAll(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!done_ && !failed_) {
      const std::uint64_t page = random() % kReadPages;
      const std::uint64_t oldest = released_[page];
      const auto* const words = reinterpret_cast<const std::uint64_t*>(view_.data() + page * kPage);
      for (std::uint64_t i = 0; i < kWords; ++i) {
        const std::uint64_t word = WordAt(words + i);
        if (word >= WordOf(page, oldest) && word <= WordOf(page, begun_[page])) continue;
        failure_ = "word " + std::to_string(i) + " of page " + std::to_string(page) + " is " +
                   std::to_string(word >> 32) + ", version " + std::to_string(word & 0xffffffff) +
                   "; released was " + std::to_string(oldest);
        failed_ = true;
        return;
      }
      ++pages_read_;
    }
  }

  std::mt19937_64 random_;
  const bool hbm_;
  RuntimeFixture runtime_;
  TensorId tensor_;
  TensorId other_;
  std::span<const std::byte> view_;
  std::array<std::atomic<std::uint64_t>, kReadPages> begun_{};
  std::array<std::atomic<std::uint64_t>, kReadPages> released_{};
  std::atomic<bool> done_{false};
  std::atomic<bool> failed_{false};
  std::string failure_;           ///< failure, owned by the reader until it has ended
  std::uint64_t pages_read_ = 0;  ///< pages read, owned likewise
};

void ReadSeeds(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed <= last && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Versions(seed, /*hbm=*/seed % 2 == 0).Work(1500);
  }
}

TEST(OffLeaseRandomTest, AReaderSeesTheNewestVersionWhilePagesMove) { ReadSeeds(1, 2); }
TEST(SlowOffLeaseRandomTest, AReaderSeesTheNewestVersionWhilePagesMove) { ReadSeeds(3, 24); }

}  // namespace
}  // namespace sluice
