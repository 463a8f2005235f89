#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/new_file.h"

/// The file of a save: 16 bytes that say what it is; the records' bytes one after another; a text
/// that says what they are; and 32 bytes: offset, size and XXH3-64 of the text, and an end mark.

namespace sluice::optim {

inline constexpr char kStateFileName[] = "optimizer.sluice";

struct StateRecord {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;  ///< XXH3-64
};

/// Writes a save, see base::NewFile. Threads: externally synchronised.
class StateFileWriter {
 public:
  /// Errors: InvalidArgument, NotFound (the directory), those of open(2).
  static absl::StatusOr<std::unique_ptr<StateFileWriter>> Create(const std::string& directory);
  ~StateFileWriter();
  StateFileWriter(const StateFileWriter&) = delete;
  StateFileWriter& operator=(const StateFileWriter&) = delete;

  void BeginRecord();
  /// More bytes of the record that has begun. Errors: those of write(2).
  absl::Status Append(std::span<const std::byte> bytes);
  StateRecord EndRecord();
  /// Ends the file with `text` and gives it its name. Errors: those of base::NewFile::Commit.
  absl::Status Commit(const std::string& text);

 private:
  struct Hasher;
  explicit StateFileWriter(std::unique_ptr<base::NewFile> file);
  absl::Status Write(std::span<const std::byte> bytes);

  const std::unique_ptr<base::NewFile> file_;
  std::uint64_t written_ = 0;
  std::uint64_t record_begin_ = 0;
  std::unique_ptr<Hasher> hasher_;
};

/// Reads what a writer has written. Threads: externally synchronised.
class StateFileReader {
 public:
  /// Errors: those of open(2), DataLoss (not such a file, cut short, a damaged text).
  static absl::StatusOr<std::unique_ptr<StateFileReader>> Open(const std::string& directory);
  ~StateFileReader();
  StateFileReader(const StateFileReader&) = delete;
  StateFileReader& operator=(const StateFileReader&) = delete;

  const std::string& text() const { return text_; }
  /// Bytes that records may lie in, from the file's first on.
  std::uint64_t records_end() const { return records_end_; }
  /// Errors: those of pread(2), DataLoss (the file has become shorter).
  absl::Status Read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Errors: those of Read, DataLoss that calls the record `name`.
  absl::Status Verify(const StateRecord& record, const std::string& name) const;

 private:
  StateFileReader(std::string path, int descriptor);
  absl::Status ReadText();
  absl::Status Damaged(const std::string& what) const;

  const std::string path_;
  const int descriptor_;
  std::string text_;
  std::uint64_t records_end_ = 0;
};

}  // namespace sluice::optim
