#include "tools/bench/bench.h"

#include <array>
#include <cstdio>
#include <vector>

#include "base/strings.h"
#include "fmt/format.h"
#include "tools/exit_code.h"

namespace sluice::tools {
namespace {

struct Benchmark {
  const char* name;
  const char* help;
  int (*run)(std::span<const std::string> words);
};

constexpr std::array kBenchmarks = {
    Benchmark{"store", "the page store against fio on the same disk", RunBenchStore},
};

std::string Usage() {
  std::string text = "Usage: sluice bench NAME [FLAG ...]\n\nBenchmarks:\n";
  for (const Benchmark& each : kBenchmarks) {
    text += fmt::format("  {:<8} {}\n", each.name, each.help);
  }
  return text + "\nsluice bench NAME --help lists its flags.\n";
}

int Unknown(const std::string& name) {
  std::vector<std::string> names;
  for (const Benchmark& each : kBenchmarks) names.emplace_back(each.name);
  PrintError(fmt::format(
      "unknown benchmark \"{}\"; did you mean \"{}\"?", name, base::NearestName(name, names)));
  return kExitUserError;
}

}  // namespace

int RunBench(std::span<const std::string> words) {
  if (words.empty()) {
    std::fputs(Usage().c_str(), stderr);
    return kExitUserError;
  }
  const std::string& name = words.front();
  if (name == "--help" || name == "-h" || name == "help") {
    fmt::print("{}", Usage());
    return kExitDone;
  }
  for (const Benchmark& each : kBenchmarks) {
    if (name == each.name) return each.run(words.subspan(1));
  }
  return Unknown(name);
}

}  // namespace sluice::tools
