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

bool HasPeers(const Case& which) {
  return HasPlainLoop(which) && which.direction != Direction::kMix;
}

std::string LoopRowName(const Case& which) { return "plain-loop/" + CaseName(which); }

std::string_view PeerName(FioPeer peer) {
  return peer == FioPeer::kBuffered ? "buffered" : "fio-libaio";
}

std::string PeerRowName(const Case& which, FioPeer peer) {
  return fmt::format("peer/{}/random/2MiB/{}", DirectionName(which.direction), PeerName(peer));
}

std::uint32_t DepthOf(const Case& which) {
  constexpr std::uint64_t kDepthMin = 8;
  constexpr std::uint64_t kDepthMax = 32;
  return static_cast<std::uint32_t>(
      std::clamp(kDepthMin * kMiB / which.page_bytes, kDepthMin, kDepthMax));
}

std::uint32_t HashedPages(const Case& which) {
  switch (which.direction) {
    case Direction::kRead:
      return DepthOf(which);
    case Direction::kMix:
      return DepthOf(which) / 4;
    case Direction::kWrite:
      break;
  }
  return 0;
}

std::vector<std::string> RowNamesOf(const Case& which) {
  std::vector<std::string> names = {CaseName(which)};
  if (HasPlainLoop(which)) names.push_back(LoopRowName(which));
  if (HasPeers(which)) {
    for (const FioPeer peer : kPeers) names.push_back(PeerRowName(which, peer));
  }
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

}  // namespace sluice::bench
