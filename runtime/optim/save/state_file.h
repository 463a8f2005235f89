#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// The file of a save has four pieces:
/// - a mark of 16 bytes, the last of them the format's number
/// - the records' bytes, one record after another
/// - a text that describes the records
/// - 32 bytes: offset, size and XXH3-64 of the text, and an end mark
/// Format 1 has an XXH3-64 of each record. Format 2 has the sum of block_sum.h, so that records can
/// be written in parts.

namespace sluice::optim {

inline constexpr char kStateFileName[] = "optimizer.sluice";
inline constexpr char kStateFileMark[16] = {
    'S', 'L', 'U', 'I', 'C', 'E', '-', 'O', 'P', 'T', 'I', 'M', 0, 0, 0, 2};

struct StateFileTrailer {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
  char end[8] = {};
};
static_assert(sizeof(StateFileTrailer) == 32);

/// The end of a file whose text begins at `offset`.
StateFileTrailer TrailerOf(std::uint64_t offset, const std::string& text);
std::string StateFilePath(const std::string& directory);
/// Whether the directory of a save is there. Errors: InvalidArgument, NotFound with `fix`, those of
/// stat(2).
absl::Status CheckSaveDirectory(const std::string& directory, std::string_view fix);

struct StateRecord {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
};

/// Reads a file that a StateWriter has written. Threads: externally synchronised.
class StateFileReader {
 public:
  /// Opens the file of a save. Errors: those of open(2), DataLoss (not such a file, cut short, a
  /// damaged text).
  static absl::StatusOr<std::unique_ptr<StateFileReader>> Open(const std::string& directory);
  ~StateFileReader();
  StateFileReader(const StateFileReader&) = delete;
  StateFileReader& operator=(const StateFileReader&) = delete;

  const std::string& text() const { return text_; }
  /// Bytes that records may lie in, from the file's first on.
  std::uint64_t records_end() const { return records_end_; }
  /// Errors: those of pread(2), DataLoss (the file has become shorter).
  absl::Status Read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Compares a record with its checksum. `block_bytes`: block of the sum, where the format has
  /// sums. Errors: those of Read, DataLoss that calls the record `name`.
  absl::Status Verify(const StateRecord& record,
                      std::uint64_t block_bytes,
                      const std::string& name) const;

 private:
  StateFileReader(std::string path, int descriptor);
  absl::Status ReadMark();
  absl::Status ReadText();
  using VisitFn = std::function<void(std::uint64_t offset, std::span<std::byte> piece)>;
  /// Reads the record piece by piece. Errors: those of Read.
  absl::Status ForEachPiece(const StateRecord& record, const VisitFn& visit) const;
  absl::StatusOr<std::uint64_t> HashOf(const StateRecord& record) const;
  absl::StatusOr<std::uint64_t> SumOf(const StateRecord& record, std::uint64_t block_bytes) const;
  absl::Status Damaged(const std::string& what) const;

  const std::string path_;
  const int descriptor_;
  bool has_sums_ = false;  ///< true for format 2
  std::string text_;
  std::uint64_t records_end_ = 0;
};

}  // namespace sluice::optim
