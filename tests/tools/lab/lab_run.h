#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/project_paths.h"
#include "tests/tools/command.h"

namespace sluice::tools {

/// `sluice lab run`, run as a user would run it.

using Json = nlohmann::json;

inline const std::string kSchedules = testing::ProjectFile("workloads/schedules");
inline const std::string kTraining = kSchedules + "/transformer-training.jsonl";
inline const std::string kStreaming = kSchedules + "/layer-streaming-inference.jsonl";
inline const std::string kOffload = kSchedules + "/zero-offload-adam.jsonl";

/// Two pages of 4 KiB that are written in turn; one fits.
inline constexpr const char* kWriteTwo = R"({"schedule": "two"}
{"tensor": 0, "bytes": 4096, "persistent": true, "name": "a"}
{"tensor": 1, "bytes": 4096, "persistent": true, "name": "b"}
{"op": 3, "name": "f", "seconds": 1, "reads": [0], "writes": [0]}
{"op": 4, "name": "g", "seconds": 1, "reads": [1], "writes": [1]}
)";

using Words = std::vector<std::string>;

inline Words LabRun(const std::string& schedule, const Words& more) {
  Words words = {"lab", "run", schedule};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline Words SmallMachine(const Words& more) {
  Words words = {"--tiers=hbm=4KiB", "--link=hbm-dram=4096B/s", "--page=4KiB"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// 16 MiB pages: few, so quick.
inline Words LargeMachine(const Words& more) {
  Words words = {"--tiers=hbm=8GiB,dram=24GiB",
                 "--link=hbm-dram=15.754GiB/s,50us",
                 "--link=dram-nvme=3.2GiB/s/2.5GiB/s/4GiB/s,80us",
                 "--page=16MiB"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline std::vector<Json> JsonOf(const Words& words) {
  Command command(words);
  EXPECT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_EQ(command.errors(), "");
  std::vector<Json> lines;
  std::size_t begin = 0;
  const std::string& text = command.output();
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(Json::parse(text.substr(begin, end - begin)));
  }
  EXPECT_EQ(begin, text.size()) << "the last line ends";
  return lines;
}

inline std::string UserError(const Words& words) {
  Command command(words);
  EXPECT_EQ(command.Wait(), 2) << command.errors();
  EXPECT_EQ(command.output(), "");
  return command.errors();
}

}  // namespace sluice::tools
