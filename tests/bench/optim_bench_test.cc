#include "bench/optim/optim_bench.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/optim/byte_loop.h"
#include "bench/optim/optim_case.h"
#include "bench/optim/update_data.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::bench {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 1 << 15;

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const OptimCase& which : OptimCases()) names.push_back(CaseName(which));
  return names;
}

TEST(OptimCaseTest, NamesAreThoseOfTheDocumentsAndUnique) {
  std::vector<std::string> names = Names();
  EXPECT_THAT(names, Contains("adamw/fp32/fp32/best/all"));
  EXPECT_THAT(names, Contains("lion/bf16/8bit/best/all"));
  EXPECT_THAT(names, Contains("adamw/fp32/fp32/best/1"));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(OptimCaseTest, BarsFollowTheTypes) {
  EXPECT_EQ(OptimCase{}.bar(), 0.95);
  EXPECT_EQ(OptimCase{.spec = {.state = optim::StateType::kBf16}}.bar(), 0.90);
  const OptimCase bits{.spec = {.state = optim::StateType::k8Bit}};
  EXPECT_EQ(bits.ceiling(), Ceiling::kFp32Kernel);
  EXPECT_EQ(bits.bar(), 0.5);
}

TEST(OptimCaseTest, EightBitStatesHaveTheMemoryOfTheFp32KernelBesideTheirs) {
  constexpr std::uint64_t kParameters = 1 << 20;
  EXPECT_EQ(BytesOf({}, kParameters), 16 * kParameters);
  const OptimCase bits{.spec = {.state = optim::StateType::k8Bit}};
  EXPECT_NEAR(static_cast<double>(BytesOf(bits, kParameters)),
              (16 + 10.03) * kParameters,
              0.01 * kParameters);
}

using Bytes = std::vector<std::byte>;

std::vector<Bytes> Contents(const UpdateData& data) {
  std::vector<Bytes> contents;
  for (const ByteStream& stream : data.streams()) {
    contents.emplace_back(stream.data, stream.data + stream.element_bytes * kCount);
  }
  return contents;
}

/// The bytes, with the lowest bit of every element flipped if the stream is written.
Bytes Flipped(Bytes bytes, const ByteStream& stream) {
  for (std::size_t i = 0; stream.writes && i < bytes.size(); i += stream.element_bytes) {
    bytes[i] ^= std::byte{1};
  }
  return bytes;
}

TEST(ByteLoopTest, MovesAllBytesOfAnUpdateAndChangesEachElementThatIsWritten) {
  for (const OptimCase& which : OptimCases()) {
    SCOPED_TRACE(CaseName(which));
    const auto data = UpdateData::Create(which.spec, kCount);
    ASSERT_TRUE(data.ok()) << data.status();
    const std::vector<ByteStream>& streams = (*data)->streams();
    const std::vector<Bytes> before = Contents(**data);
    double bytes = 0;
    for (const ByteStream& stream : streams) {
      bytes += static_cast<double>(stream.element_bytes * (stream.writes ? 2 : 1));
    }
    // Tolerance: Moved() counts the scales as well.
    EXPECT_NEAR(bytes, BytesPerElement(which.spec).Moved(), 0.07);
    MoveBytes(streams, 0, kCount);
    const std::vector<Bytes> after = Contents(**data);
    for (std::size_t k = 0; k < streams.size(); ++k) {
      EXPECT_EQ(after[k], Flipped(before[k], streams[k])) << "stream " << k;
    }
    MoveBytes(streams, 0, kCount);
    EXPECT_EQ(Contents(**data), before);
  }
}

/// The share of the lines of 64 bytes that differ.
double ChangedLines(const Bytes& a, const Bytes& b) {
  std::size_t changed = 0;
  for (std::size_t i = 0; i < a.size(); i += 64) {
    changed += std::memcmp(&a[i], &b[i], 64) != 0 ? 1 : 0;
  }
  return static_cast<double>(changed) * 64 / static_cast<double>(a.size());
}

TEST(UpdateDataTest, UpdatesGoOnChangingTheLinesThatTheyWrite) {
  for (const OptimCase& which : OptimCases()) {
    if (which.target != optim::SimdTarget::kBest || !which.all_threads) continue;
    SCOPED_TRACE(CaseName(which));
    const auto data = UpdateData::Create(which.spec, kCount);
    const auto kernel = FindKernel(which.spec);
    ASSERT_TRUE(data.ok() && kernel.ok());
    std::vector<Bytes> before;
    for (int update = 0; update < 12; ++update) {
      before = Contents(**data);
      (*kernel)((*data)->Args(0, kCount));
    }
    const std::vector<Bytes> after = Contents(**data);
    // Gradients that stay the same leave the codes of 8-bit states as they are: scales change.
    const bool codes = which.spec.state == optim::StateType::k8Bit;
    for (std::size_t k = 0; k < (codes ? 2 : after.size()); ++k) {
      const double changed = ChangedLines(before[k], after[k]);
      const bool writes = (*data)->streams()[k].writes;
      EXPECT_TRUE(writes ? changed >= 0.95 : changed == 0) << changed << " of stream " << k;
    }
  }
}

TEST(ByteLoopTest, ReadsEveryByte) {
  const auto data = UpdateData::Create({}, kCount);
  ASSERT_TRUE(data.ok()) << data.status();
  const auto sum = [&] {
    const unsigned read = MoveBytes((*data)->streams(), 0, kCount);
    MoveBytes((*data)->streams(), 0, kCount);  // a second move puts the bits back
    return read;
  };
  const unsigned usual = sum();
  // The first byte of each 64 goes into the lane that is returned.
  for (const ByteStream& stream : (*data)->streams()) {
    std::byte& last = stream.data[stream.element_bytes * kCount - 64];
    last ^= std::byte{0x55};
    EXPECT_NE(sum(), usual);
    last ^= std::byte{0x55};
    EXPECT_EQ(sum(), usual);
  }
}

OptimBenchOptions Tiny(const std::string& pattern) {
  return {.pattern = pattern, .rounds = 2, .parameters = 1 << 16};
}

TEST(OptimBenchTest, ARowHasWhatAnUpdateTakes) {
  std::vector<Row> rows;
  const auto add = [&](const Row& row) { rows.push_back(row); };
  const absl::Status status = RunOptimBench(Tiny("adamw/fp32/*/best/all"), add);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].name, "adamw/fp32/fp32/best/all");
  EXPECT_EQ(rows[0].ceiling_of, "byte-loop");
  EXPECT_EQ(rows[2].ceiling_of, "fp32-kernel");
  for (const Row& row : rows) {
    EXPECT_EQ(row.simd, ToString(optim::BestSimdTarget()));
    EXPECT_GT(row.ratio.value(), 0);
  }
  // GiB/s and ns per parameter are two forms of one time: an update moves 28 bytes.
  EXPECT_NEAR(rows[0].value * (1 << 30) * *rows[0].ns_per_parameter, 28e9, 1e3);
  EXPECT_NEAR(1 / rows[2].value, *rows[2].ns_per_parameter, 1e-9);
}

TEST(OptimBenchTest, RefusesWhatItCannotMeasure) {
  const auto message = [](const OptimBenchOptions& options) {
    const absl::Status status = RunOptimBench(options, [](const Row&) {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(Tiny("adamx")), HasSubstr("cases have names like adamw/fp32/fp32/best/all"));
  OptimBenchOptions odd = Tiny("");
  odd.parameters = 100;
  EXPECT_THAT(message(odd), HasSubstr("no multiple of 4096"));
}

TEST(OptimBenchTest, AnInterruptEndsIt) {
  OptimBenchOptions options = Tiny("");
  options.interrupted = [] { return true; };
  EXPECT_EQ(RunOptimBench(options, [](const Row&) {}).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace sluice::bench
