#include "tools/bench/row_output.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice::tools {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const MachineFacts kFacts = {.cpu = "Some CPU", .cpus = 2, .kernel = "6.1", .file_system = "ext4"};

TEST(RowOutputTest, AJudgedRowHasItsCeiling) {
  const bench::Row row{.name = "read/seq/2MiB/io_uring",
                       .value = 3,
                       .unit = "GiB/s",
                       .reps = 11,
                       .spread = 0.1,
                       .huge_pages = true,
                       .ceiling = 3.1,
                       .ceiling_of = "fio",
                       .ratio = 0.97,
                       .over_max = 15,
                       .reached = true,
                       .control_low = 0.95,
                       .depth = 32,
                       .cpu_ratio = 1.2};
  const std::string line = RowToJson("store", row, kFacts);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Json json = Json::parse(line);
  EXPECT_EQ(json["bench"], "store");
  EXPECT_EQ(json["case"], "read/seq/2MiB/io_uring");
  EXPECT_EQ(json["value"], 3.0);
  EXPECT_EQ(json["unit"], "GiB/s");
  EXPECT_EQ(json["reps"], 11);
  EXPECT_EQ(json["spread"], 0.1);
  EXPECT_EQ(json["ceiling"], 3.1);
  EXPECT_EQ(json["ratio"], 0.97);
  EXPECT_EQ(json["over_max"], 15.0);
  EXPECT_EQ(json["reached"], true);
  EXPECT_EQ(json["control_low"], 0.95);
  EXPECT_EQ(json["depth"], 32);
  EXPECT_EQ(json["cpu_ratio"], 1.2);
  EXPECT_EQ(json["cpu"], "Some CPU");
  EXPECT_EQ(json["cpus"], 2);
  EXPECT_EQ(json["kernel"], "6.1");
  EXPECT_EQ(json["file_system"], "ext4");
  EXPECT_EQ(json["huge_pages"], true);
  EXPECT_FALSE(json.contains("peer"));
}

TEST(RowOutputTest, FieldsThatDoNotApplyAreAbsent) {
  const Json json = Json::parse(RowToJson("store", {.name = "all/geomean", .unit = "ratio"}, {}));
  for (const char* key : {"ratio",
                          "ceiling",
                          "ceiling_of",
                          "control_low",
                          "depth",
                          "cpu_ratio",
                          "peer",
                          "peer_ratio",
                          "cpu",
                          "kernel"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
}

TEST(RowOutputTest, AKernelsRowHasItsUpdate) {
  const bench::Row row{.name = "adamw/fp32/fp32/best/all",
                       .ratio = 0.97,
                       .simd = "avx2",
                       .bar = 0.95,
                       .ns_per_parameter = 1.25};
  const Json json = Json::parse(RowToJson("optim", row, {}));
  EXPECT_EQ(json["simd"], "avx2");
  EXPECT_EQ(json["target"], 0.95);
  EXPECT_EQ(json["ns_per_parameter"], 1.25);
  EXPECT_THAT(RowToText(row), HasSubstr("1.250"));
}

TEST(RowOutputTest, AStepsRowHasItsTimesAndBytes) {
  const bench::Row row{.name = "adamw/fp32/fp32/512MiB",
                       .ratio = 0.95,
                       .bar = 1 / 1.1,
                       .ns_per_parameter = 7.5,
                       .step = bench::StepFigures{.parameters = 1 << 28,
                                                  .budget_bytes = 512 << 20,
                                                  .seconds = 2.125,
                                                  .floor_seconds = 2,
                                                  .wait_seconds = 1.5,
                                                  .wait_read_seconds = 1.13,
                                                  .wait_write_seconds = 0.37,
                                                  .compute_seconds = 0.5,
                                                  .read_bytes = 5 << 20,
                                                  .written_bytes = 6 << 20,
                                                  .read_busy_seconds = 1,
                                                  .write_busy_seconds = 2,
                                                  .peak_rss_bytes = 80,
                                                  .peak_rss_limit_bytes = 100}};
  const Json json = Json::parse(RowToJson("step", row, {}));
  EXPECT_EQ(json["parameters"], 1 << 28);
  EXPECT_EQ(json["budget_bytes"], 512 << 20);
  EXPECT_EQ(json["seconds"], 2.125);
  EXPECT_EQ(json["floor_seconds"], 2.0);
  EXPECT_EQ(json["wait_seconds"], 1.5);
  EXPECT_EQ(json["wait_read_seconds"], 1.13);
  EXPECT_EQ(json["wait_write_seconds"], 0.37);
  EXPECT_EQ(json["compute_seconds"], 0.5);
  EXPECT_EQ(json["read_bytes"], 5 << 20);
  EXPECT_EQ(json["written_bytes"], 6 << 20);
  EXPECT_EQ(json["read_busy_seconds"], 1.0);
  EXPECT_EQ(json["write_busy_seconds"], 2.0);
  EXPECT_EQ(json["peak_rss_bytes"], 80);
  EXPECT_EQ(json["peak_rss_limit_bytes"], 100);
  EXPECT_FALSE(Json::parse(RowToJson("store", {}, {})).contains("parameters"));
}

TEST(RowOutputTest, TextHasColumnsLikeItsHead) {
  const std::string line = RowToText({.name = "peer/read/random/2MiB/buffered",
                                      .value = 3,
                                      .unit = "GiB/s",
                                      .peer_value = 1.5,
                                      .peer_ratio = 2});
  EXPECT_THAT(line, HasSubstr("GiB/s"));
  EXPECT_THAT(line, HasSubstr("3.00"));
  EXPECT_THAT(line, HasSubstr("1.50"));
  EXPECT_THAT(line, HasSubstr("2.00"));
  EXPECT_EQ(line.size(), TableHead().size());
}

}  // namespace
}  // namespace sluice::tools
