#include <random>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/sim/files/gzip.h"
#include "tests/runtime/sim/files/read_text.h"
#include "tests/support/status_matchers.h"

namespace sluice::sim {
namespace {

using ::sluice::testing::IsOk;
using ::sluice::testing::IsStatus;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

/// A header, a tensor of 100 bytes, and these lines.
std::string After(const std::string& lines) {
  return "{\"schedule\": \"s\"}\n{\"tensor\": 1, \"bytes\": 100, \"persistent\": true}\n" + lines;
}

/// An op's line, with these fields in place of, or beside, its usual ones.
std::string Op(int id, const std::string& more, const std::string& reads = "1") {
  return fmt::format(
      "{{\"op\": {}, \"seconds\": 0, \"reads\": [{}], \"writes\": []{}}}\n", id, reads, more);
}

struct BadLine {
  std::string text;
  std::string message;
};

void ExpectEach(const std::vector<BadLine>& cases) {
  for (const BadLine& bad : cases) {
    EXPECT_THAT(ReadText(bad.text), IsStatus(kInvalid, bad.message)) << bad.text;
  }
}

TEST(ScheduleErrorsTest, BadOpsNameFileLineAndCause) {
  ExpectEach({
      {After("{\"op\": 0,\n"), "f:3: no JSON at byte 10"},
      {After("[1]\n"), "f:3: the line is no JSON object"},
      {After("{\"op\": 0, \"op\": 0}\n"), "f:3: the field \"op\" stands twice"},
      {After("{\"x\": 1}\n"), "f:3: a line has exactly one of the fields"},
      {After("{\"op\": 1, \"tensor\": 2}\n"), "f:3: a line has exactly one of the fields"},
      {After("{\"op\": -1}\n"), "f:3: \"op\" is -1; it must be a whole number from 0"},
      {After("{\"op\": 0, \"reads\": [], \"writes\": []}\n"),
       "op 0: the field \"seconds\" is miss"},
      {After("{\"op\": 0, \"seconds\": 0, \"writes\": []}\n"), "the field \"reads\" is missing"},
      {After("{\"op\": 0, \"seconds\": -1, \"reads\": [], \"writes\": []}\n"),
       "f:3: op 0: \"seconds\" is -1; it must be a number of seconds from 0 to 1e+09"},
      {After("{\"op\": 0, \"seconds\": 1e999, \"reads\": [], \"writes\": []}\n"),
       "f:3: the number \"1e999\" is too large"},
      {After("{\"op\": 0, \"seconds\": 1e300, \"reads\": [], \"writes\": []}\n"),
       "op 0: \"seconds"},
      {After("{\"op\": 0, \"seconds\": \"\\u001b[1m\", \"reads\": []}\n"), "is \"?[1m\"; it must"},
      {After("{\"op\": 0, \"seconds\": NaN}\n"), "f:3: no JSON at byte"},
      {After(Op(0, "", "2")), "f:3: op 0: \"reads\": no line before this one describes tensor 2"},
      {After(Op(0, "", "[1, 90, 11]")),
       "f:3: op 0: \"reads\": bytes 90 to 100 of tensor 1 are asked for, but it has only 100"},
      {After(Op(0, "", "[1, 1152921504606846976, 1152921504606846976]")), "it has only 100"},
      {After(Op(0, "", "[1, 0, 0]")), "the part of tensor 1 has 0 bytes"},
      {After(Op(0, "", "[1, 0]")), "a part of a tensor has 2 numbers"},
      {After(Op(0, "", "[[1], 0, 1]")), "a tensor is a list; it must be"},
      {After(Op(0, ", \"tier\": \"disk\"")), "op 0: \"disk\" is not a tier"},
      {After(Op(0, ", \"tier\": \"nvme\"")), "is nvme, where no op can work"},
      {After(Op(0, ", \"tiers\": {\"x\": \"hbm\"}")), "\"tiers\" names \"x\""},
      {After(Op(0, ", \"lane\": 3")), "\"lane\" is 3; it must be a text"},
      {After(Op(0, ", \"recompute_seconds\": [1]")), "has 1 numbers and \"writes\" 0"},
      {After(Op(0, ", \"recompute_seconds\": -1")), "op 0: \"recompute_seconds\" is -1; it must"},
      {After(Op(0, ", \"recompute_seconds\": null")), "\"recompute_seconds\" is null; it must"},
      {After(Op(0, ", \"name\": \"n\", \"after\": [0]")),
       "op 0 (n): \"after\" names the op itself"},
      {After("{\"tensor\": 2, \"bytes\": 9, \"persistent\": true, \"home\": \"file\"}\n"
             "{\"op\": 0, \"seconds\": 0, \"reads\": [2], \"writes\": [1, 2]}\n"),
       "f:4: op 0 writes tensor 2, whose home is a file that is only read"},
      {After(Op(3, "") + Op(3, "")), "f:4: op 3 stands twice"},
      {After(Op(3, "") + Op(2, "")), "f:4: op 2 stands behind op 3; number ops in the order"},
  });
}

TEST(ScheduleErrorsTest, BadTensorsHeadersAndFilesNameFileLineAndCause) {
  ExpectEach({
      {After(""), "f:2: no op follows the header"},
      {After("{\"tensor\": 1, \"bytes\": 1, \"persistent\": true}\n"),
       "f:3: tensor 1 is described"},
      {After("{\"tensor\": 2, \"bytes\": 0, \"persistent\": true}\n"), "tensor 2: \"bytes\" is 0"},
      {After("{\"tensor\": 2, \"bytes\": 1.5, \"persistent\": true}\n"),
       "\"bytes\" is 1.5; it must"},
      {After("{\"tensor\": 2, \"bytes\": 1152921504606846977, \"persistent\": true}\n"),
       "it must be a whole number from 0 to 1152921504606846976"},
      {After("{\"tensor\": 2, \"bytes\": 1}\n"), "tensor 2: the field \"persistent\" is missing"},
      {After("{\"tensor\": 2, \"bytes\": 1, \"persistent\": true, \"kind\": \"parametr\"}\n"),
       "\"kind\" is \"parametr\"; did you mean \"parameter\"?"},
      {After("{\"tensor\": 2, \"bytes\": 1, \"persistent\": true, \"home\": \"x\"}\n"),
       "\"home\" is"},
      {After("{\"tensor\": 2, \"bytes\": 1, \"persistent\": true, \"offset\": 1}\n"),
       "\"offset\" is"},
      {"{\"tensor\": 1}\n", "f:1: no header stands before this line"},
      {"{\"schedule\": \"s\", \"version\": 2}\n", "f:1: \"version\" is not 1"},
      {"{\"schedule\": \"s\", \"ops\": 2}\n" + Op(0, "", ""),
       "f:2: the header promises 2 ops, but 1"},
      {"{\"schedule\": \"s\"}\n{\"schedule\": \"t\"}\n", "f:1: no op follows the header"},
      {"", "f holds no schedule; `sluice train --record FILE` writes one"},
      {" \n\n", "f holds no schedule"},
      {"\x1f", "f:1: no JSON at byte 1"},
      {"{\"schedule\": \"s", "f:1: no JSON at byte 16 of the line, after"},
      {"{\"schedule\": \"s", "(the file ends within this line: was it cut short?)"},
  });
}

TEST(ScheduleErrorsTest, SumsThatOverflowAreFound) {
  const std::string large = "\"bytes\": 1152921504606846976, \"persistent\": true}\n";
  EXPECT_THAT(ReadText(After("{\"tensor\": 2, " + large + "{\"tensor\": 3, " + large)),
              IsStatus(kInvalid, "f:4: tensor 3: all tensors together have more than 2^61 bytes"));
  EXPECT_THAT(ReadText(After("{\"tensor\": 2, " + large + Op(0, "", "2") + Op(1, "", "2"))),
              IsStatus(kInvalid, "f:5: op 1: the ops up to this one touch more than 2^61 bytes"));
}

TEST(ScheduleErrorsTest, WaitsMustGoBackwards) {
  EXPECT_THAT(ReadText(After(Op(3, ", \"after\": [5]") + Op(4, ", \"after\": []"))),
              IsStatus(kInvalid, "f:3: op 3: \"after\" names op 5, which does not exist"));
  const std::string behind = Op(3, ", \"after\": [5]") + Op(5, ", \"after\": []");
  EXPECT_THAT(ReadText(After(behind)),
              IsStatus(kInvalid, "f:3: op 3: \"after\" names op 5, which stands behind it"));
  // Op 5 has no "after", so it waits for the one before it in its lane.
  EXPECT_THAT(ReadText(After(Op(3, ", \"after\": [5]") + Op(4, "") + Op(5, ""))),
              IsStatus(kInvalid, "each op waits for the next (3 -> 5 -> 4 -> 3)"));
  EXPECT_THAT(ReadText(After(Op(3, ", \"after\": [5]") + Op(4, ", \"lane\": \"x\"") +
                             Op(5, ", \"after\": [3]"))),
              IsStatus(kInvalid, "(3 -> 5 -> 3)"));
  EXPECT_THAT(ReadText(After(Op(3, ", \"after\": [5]") + Op(5, ", \"after\": [6]") +
                             Op(6, ", \"after\": [3]"))),
              IsStatus(kInvalid, "(3 -> 5 -> 6 -> 3)"));
}

TEST(ScheduleErrorsTest, ALongCycleIsShortened) {
  std::string lines = Op(0, ", \"after\": [99]");
  for (int i = 1; i < 100; ++i) lines += Op(i, "");
  EXPECT_THAT(ReadText(After(lines)), IsStatus(kInvalid, "(0 -> 99 -> 98 -> "));
  EXPECT_THAT(ReadText(After(lines)), IsStatus(kInvalid, " -> ... -> 0)"));
}

TEST(ScheduleErrorsTest, DamagedGzipNamesTheByte) {
  const std::string file = Gzip(After(Op(0, "")));
  ASSERT_THAT(ReadText(file), IsOk());
  EXPECT_THAT(ReadText(file.substr(0, 30)),
              IsStatus(kInvalid, "f: the gzip data ends too early, at byte 30; make or fetch"));
  EXPECT_THAT(ReadText(file.substr(0, file.size() - 1)), IsStatus(kInvalid, "ends too early"));
  EXPECT_THAT(ReadText(file + "xyz"), IsStatus(kInvalid, "f: the gzip data is damaged at byte"));
  std::string wrong_sum = file;
  wrong_sum[file.size() - 8] ^= 1;
  EXPECT_THAT(ReadText(wrong_sum), IsStatus(kInvalid, "incorrect data check"));
}

/// No prefix and no changed byte crashes the reader. Its message is never empty.
TEST(ScheduleErrorsTest, AnyDamageIsAnErrorOrNone) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const std::string plain =
      After(Op(0, ", \"after\": []") + Op(7, ", \"after\": [0]", "[1, 5, 9]"));
  for (const std::string& text : {plain, Gzip(plain)}) {
    for (int i = 0; i < 2000; ++i) {
      std::string damaged = text.substr(0, 1 + random() % text.size());
      for (int k = 0; k < static_cast<int>(random() % 3); ++k) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
      const absl::StatusOr<FileSchedule> schedule = ReadText(damaged, {.piece = 1 + random() % 50});
      EXPECT_TRUE(schedule.ok() || !schedule.status().message().empty());
    }
  }
}

TEST(ScheduleErrorsTest, LimitsAreHeld) {
  const std::string text = After(Op(0, "") + Op(1, ""));
  ASSERT_THAT(ReadText(text), IsOk());
  EXPECT_THAT(ReadText(text, {.limits = {.text = Bytes(text.size() - 1)}}),
              IsStatus(kExhausted, "the text is too long; at most"));
  EXPECT_THAT(ReadText(text, {.limits = {.line = Bytes(40)}}),
              IsStatus(kExhausted, "f:2: the line is longer than 40 B"));
  EXPECT_THAT(ReadText(text, {.limits = {.values = 4}}),
              IsStatus(kExhausted, "f:3: the line holds more than 4 values"));
  EXPECT_THAT(ReadText(After(Op(0, "") + Op(1, ", \"lane\": \"cpu\"")), {.limits = {.lanes = 1}}),
              IsStatus(kExhausted, "f:4: op 1: there are more than 1 lanes"));
  EXPECT_THAT(ReadText(text, {.limits = {.model = Bytes(600)}}),
              IsStatus(kExhausted, "the schedules take more than 600 B of memory"));
  EXPECT_THAT(ReadText(After(Op(0, ", \"name\": \"" + std::string(5000, 'x') + "\""))),
              IsStatus(kInvalid, "it must be a text of at most 4096 bytes"));
  EXPECT_THAT(ReadText(std::string(1000, '[')), IsStatus(kExhausted, "nested more than 8 deep"));
}

TEST(ScheduleErrorsTest, AZipBombIsCutOff) {
  const std::string bomb = Gzip("{\"schedule\": \"" + std::string(std::size_t{20} << 20, 'x'));
  ASSERT_LT(bomb.size(), 100'000u);
  EXPECT_THAT(ReadText(bomb), IsStatus(kExhausted, "f:1: the line is longer than 8 MiB"));
  const std::string lines = Gzip(std::string(std::size_t{20} << 20, '\n'));
  EXPECT_THAT(ReadText(lines, {.limits = {.text = Bytes(10 << 20)}}),
              IsStatus(kExhausted, "the text is too long; at most 10 MiB are read"));
}

TEST(ScheduleErrorsTest, TheFirstErrorStays) {
  ScheduleReader reader({.file = "f"});
  const absl::Status first = reader.Append("{}\n");
  EXPECT_THAT(first, IsStatus(kInvalid, "f:1"));
  EXPECT_EQ(reader.Append("{\"schedule\": \"s\"}\n"), first);
  EXPECT_EQ(reader.Finish().status(), first);
}

}  // namespace
}  // namespace sluice::sim
