#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Cases of the benchmark, their names, and one stretch of load.

namespace sluice::bench {

enum class Direction : std::uint8_t { kRead, kWrite, kMix };
enum class Pattern : std::uint8_t { kSeq, kRandom };
enum class StoreEngine : std::uint8_t { kIoUring, kThreads };

struct Case {
  Direction direction = Direction::kRead;
  Pattern pattern = Pattern::kSeq;
  std::uint64_t page_bytes = 0;
  StoreEngine engine = StoreEngine::kIoUring;
};

/// "read/seq/2MiB/io_uring".
std::string CaseName(const Case& which);
std::string_view DirectionName(Direction direction);
/// "256KiB", "2MiB".
std::string SizeName(std::uint64_t bytes);

/// Every case that is judged against a ceiling, in the order in which they run.
std::vector<Case> JudgedCases();
/// Whether the geometric mean includes the case: io_uring, and pages of 1 MiB or more.
bool CountsForMean(const Case& which);
/// Name of the mean's row.
inline constexpr char kMeanName[] = "all/geomean";
/// Whether a plain loop runs beside fio in each round: random 2 MiB on io_uring.
bool HasPlainLoop(const Case& which);
std::string LoopRowName(const Case& which);

/// Ways to move pages that are compared with the store, and run by fio.
enum class FioPeer : std::uint8_t {
  kBuffered,  ///< pread and pwrite on one thread through the page cache
  kLibaio     ///< libaio with O_DIRECT, at the depth of the case
};
inline constexpr std::array kPeers = {FioPeer::kBuffered, FioPeer::kLibaio};
std::string_view PeerName(FioPeer peer);
/// Whether the peers run after the rounds: random 2 MiB reads and writes on io_uring.
bool HasPeers(const Case& which);
/// "peer/read/random/2MiB/buffered".
std::string PeerRowName(const Case& which, FioPeer peer);

/// Requests in the kernel, of every side: 8 MiB of small pages, 8 to 32 pages.
std::uint32_t DepthOf(const Case& which);
/// Operations of the store beyond the depth, which are hashed or wait for that. A read is hashed
/// after the kernel's part, so reads have as many again, mixes a quarter and writes none.
std::uint32_t HashedPages(const Case& which);

/// Rows of a case: first its own, then those of the loop, the peers and the mean.
std::vector<std::string> RowNamesOf(const Case& which);
/// The cases with a row that matches.
std::vector<Case> SelectedCases(const std::string& pattern);
/// Whether `name` has `pattern` in it, or matches it where it has a *, ? or [. Empty: every name.
bool MatchesPattern(const std::string& pattern, const std::string& name);

/// Unit of the files' size: the largest page.
inline constexpr std::uint64_t kSizeUnit = std::uint64_t{8} << 20;

/// Number of files of equal size that `file_bytes` is spread over, on both sides. A page store has
/// one for each GiB and at most 4, or fewer if that leaves a rest. REQUIRES: a multiple of
/// kSizeUnit.
std::uint32_t FilesOf(std::uint64_t file_bytes);

/// Load of both sides for `milliseconds`, at most `depth` requests in the kernel. Each page comes
/// once before any comes again, in the order of the file or at random. In a mix every second page
/// is written.
struct Load {
  Case which;
  std::uint32_t depth = 8;
  /// Operations of a page store beyond the depth, being hashed or waiting for that. So the kernel
  /// never waits for a worker. 0: operations being hashed count towards `depth`.
  std::uint32_t hashing = 0;
  std::uint32_t milliseconds = 1000;
  std::uint64_t file_bytes = 0;

  std::uint32_t outstanding() const { return depth + hashing; }
  std::uint32_t pages() const { return static_cast<std::uint32_t>(file_bytes / which.page_bytes); }
};

}  // namespace sluice::bench
