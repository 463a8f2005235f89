#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What is measured: the cases, their names, and one stretch of load.

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
/// On io_uring and of 1 MiB or more: those that the geometric mean is taken over.
bool CountsForMean(const Case& which);
/// The row of the mean of those.
inline constexpr char kMeanName[] = "all/geomean";
/// Whether a plain loop runs beside fio, for pages of 2 MiB.
bool HasPlainLoop(const Case& which);
inline constexpr char kPlainLoop[] = "plain-loop";
/// The runs of full length in a round of the case: fio, ours, fio, and two more where a plain loop
/// runs `beside_fio`.
int RunsInRound(const Case& which, bool beside_fio);
/// Whether fio runs beside it with a thread for each request, at most 16, too, as the store does.
bool HasFioThreads(const Case& which);
inline constexpr char kFioThreads[] = "fio-threads";
/// Whether the row is of something that runs beside the store, and is not judged.
bool IsBesideStore(const std::string& row_name);
/// The rows that measuring a case gives, the case itself first: others run beside some, and
/// the mean is taken over others.
std::vector<std::string> RowNamesOf(const Case& which);
/// The cases with a row that matches.
std::vector<Case> SelectedCases(const std::string& pattern);
/// Whether `name` has `pattern` in it, or matches it where it has a *, ? or [. Empty: every name.
bool MatchesPattern(const std::string& pattern, const std::string& name);

/// What the size of the files is a multiple of: the largest page.
inline constexpr std::uint64_t kSizeUnit = std::uint64_t{8} << 20;

/// How many files of equal size both sides spread `file_bytes` over: as a page store does, one for
/// each GiB and at most 4, or fewer where that leaves a rest. REQUIRES: a multiple of kSizeUnit.
std::uint32_t FilesOf(std::uint64_t file_bytes);

/// Whether the first of two runs of a second is faster by more than such runs differ by, 3 %.
bool IsClearlyFaster(double rate, double than);

/// What both sides do for `milliseconds`: at most `depth` requests in the kernel, each page once
/// before any comes again, in the order of the file or not; a mix is every second page written.
struct Load {
  Case which;
  std::uint32_t depth = 8;
  /// Operations outstanding beyond those, of a page store: as many as are being hashed or wait for
  /// it, so that the kernel does not wait for a worker. With none, these are of the `depth`.
  std::uint32_t hashing = 0;
  std::uint32_t milliseconds = 1000;
  std::uint64_t file_bytes = 0;

  std::uint32_t outstanding() const { return depth + hashing; }
  std::uint32_t pages() const { return static_cast<std::uint32_t>(file_bytes / which.page_bytes); }
};

}  // namespace sluice::bench
