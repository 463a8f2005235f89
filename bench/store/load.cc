#include "bench/store/load.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>

#include "fmt/format.h"

namespace sluice::bench {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = kKiB * 1024;
constexpr std::array kDirections = {Direction::kRead, Direction::kWrite, Direction::kMix};

void AddDirections(Pattern pattern,
                   std::uint64_t page_bytes,
                   StoreEngine engine,
                   std::vector<Case>& cases) {
  for (const Direction direction : kDirections) {
    cases.push_back({direction, pattern, page_bytes, engine});
  }
}

}  // namespace

std::string_view DirectionName(Direction direction) {
  switch (direction) {
    case Direction::kRead:
      return "read";
    case Direction::kWrite:
      return "write";
    case Direction::kMix:
      break;
  }
  return "mix";
}

std::string SizeName(std::uint64_t bytes) {
  return bytes % kMiB == 0 ? fmt::format("{}MiB", bytes / kMiB)
                           : fmt::format("{}KiB", bytes / kKiB);
}

std::string CaseName(const Case& which) {
  return fmt::format("{}/{}/{}/{}",
                     DirectionName(which.direction),
                     which.pattern == Pattern::kSeq ? "seq" : "random",
                     SizeName(which.page_bytes),
                     which.engine == StoreEngine::kIoUring ? "io_uring" : "threads");
}

std::vector<Case> JudgedCases() {
  std::vector<Case> cases;
  for (const std::uint64_t page_bytes : {kMiB, 2 * kMiB, 8 * kMiB}) {
    AddDirections(Pattern::kSeq, page_bytes, StoreEngine::kIoUring, cases);
    AddDirections(Pattern::kRandom, page_bytes, StoreEngine::kIoUring, cases);
  }
  AddDirections(Pattern::kRandom, 256 * kKiB, StoreEngine::kIoUring, cases);
  AddDirections(Pattern::kRandom, 2 * kMiB, StoreEngine::kThreads, cases);
  return cases;
}

std::uint32_t FilesOf(std::uint64_t file_bytes) {
  constexpr std::uint64_t kBytesPerFile = std::uint64_t{1} << 30;
  auto files =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(file_bytes / kBytesPerFile, 1, 4));
  while (file_bytes % (files * kSizeUnit) != 0) --files;
  return files;
}

bool CountsForMean(const Case& which) {
  return which.engine == StoreEngine::kIoUring && which.page_bytes >= kMiB;
}

bool HasPlainLoop(const Case& which) {
  return which.engine == StoreEngine::kIoUring && which.pattern == Pattern::kRandom &&
         which.page_bytes == 2 * kMiB;
}

int RunsInRound(const Case& which, bool beside_fio) {
  return beside_fio && HasPlainLoop(which) ? 5 : 3;
}

bool HasFioThreads(const Case& which) { return which.engine == StoreEngine::kThreads; }

bool IsBesideStore(const std::string& row_name) {
  return row_name.starts_with(kPlainLoop) || row_name.starts_with(kFioThreads);
}

std::vector<std::string> RowNamesOf(const Case& which) {
  const std::string name = CaseName(which);
  std::vector<std::string> names = {name};
  if (HasPlainLoop(which)) names.push_back(fmt::format("{}/{}", kPlainLoop, name));
  if (HasFioThreads(which)) names.push_back(fmt::format("{}/{}", kFioThreads, name));
  if (CountsForMean(which)) names.emplace_back(kMeanName);
  return names;
}

std::vector<Case> SelectedCases(const std::string& pattern) {
  std::vector<Case> cases;
  for (const Case& which : JudgedCases()) {
    const std::vector<std::string> names = RowNamesOf(which);
    const bool matches = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return MatchesPattern(pattern, name);
    });
    if (matches) cases.push_back(which);
  }
  return cases;
}

bool MatchesPattern(const std::string& pattern, const std::string& name) {
  if (pattern.find_first_of("*?[") == std::string::npos) {
    return name.find(pattern) != std::string::npos;
  }
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool IsClearlyFaster(double rate, double than) { return rate > 1.03 * than; }

}  // namespace sluice::bench
