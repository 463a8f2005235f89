#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/train/state/directory_lock.h"
#include "tools/train/state/state_calls.h"

/// The directory of --state: saves of one training, named by step, and a lock.
///
///   DIR/lock
///   DIR/step-0000110/optimizer.sluice
///   DIR/step-0000120/optimizer.sluice

namespace sluice::tools {

/// Number of saves that stay: the newest, and the one before.
inline constexpr int kSavesKept = 2;

/// Name of a save's directory: "step-0000120".
std::string SaveName(int step);

/// A directory that holds a save's file.
struct FoundSave {
  std::string directory;
  int step = 0;  ///< step that the directory's name says; -1: the name says none
};

/// The saves under `directory` that are named by step, the newest first. If the directory has a
/// save's file itself, as --save-state makes it, the result is that one alone. Errors: those of
/// reading the directory.
absl::StatusOr<std::vector<FoundSave>> ListSaves(const std::string& directory);

struct StateDirectoryOptions {
  std::string path;
  /// Calls in place of the kernel's, for tests. Lifetime: outlives the directory.
  StateCalls* calls = nullptr;
  DirectoryLock::Flock flock = nullptr;
};

/// Makes, locks and cleans a directory of saves, and removes older saves.
///
/// The order is the one that power loss needs: the new save's file is whole under its name
/// (base::NewFile), the directory is synced, then older saves are removed. After a crash at any
/// moment the newest save that was durable, or a newer one, is there.
/// Threads: externally synchronised.
class StateDirectory {
 public:
  /// Makes `path` (its parent must be there), and locks it. No other process can then write there,
  /// so the remains of a killed run are removed. Without locks nothing is removed. Errors:
  /// InvalidArgument (no directory, an empty name, a save of --save-state), NotFound (the parent),
  /// FailedPrecondition (locked), those of the file system.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Open(const StateDirectoryOptions& options);
  /// Removes a directory that Open has made and that has taken no save.
  ~StateDirectory();
  StateDirectory(const StateDirectory&) = delete;
  StateDirectory& operator=(const StateDirectory&) = delete;

  const std::string& path() const { return path_; }
  const DirectoryLock& lock() const { return *lock_; }
  /// Names of the directories that Open found without a save and removed.
  const std::vector<std::string>& removed() const { return removed_; }

  /// Notes that the save of `step` is good: the run goes on from it. Older ones, which nobody has
  /// verified, stay until there is another good one.
  void OnResumed(int step) { good_ = {step}; }
  /// Makes the directory that takes the save of `step`. Returns its path.
  absl::StatusOr<std::string> BeginSave(int step);
  /// Makes a whole save durable, then removes saves older than the last two good ones.
  absl::Status EndSave(int step);
  /// Whether the save of `step` is whole and durable, whatever became of older ones.
  bool IsGood(int step) const;
  /// Removes the save of `step`, which is no good after all. Returns the step of the last good one;
  /// 0: none.
  absl::StatusOr<int> Withdraw(int step);
  /// Gives up a save: removes the directory that BeginSave has made, unless an older save is in it.
  void GiveUpSave(int step);

 private:
  explicit StateDirectory(const StateDirectoryOptions& options);
  absl::Status Make();
  void RemoveUnused();
  absl::Status OpenDirectory();
  absl::Status CheckNoOtherSave() const;
  absl::Status Clean();
  absl::Status RemovePartialFiles(const std::string& directory);
  absl::Status RemoveOlderThan(int step);
  absl::Status RemoveSave(const std::string& directory);
  absl::Status SyncDirectory(int fd, const std::string& path);
  std::string PathOf(int step) const;

  const std::string path_;
  StateCalls kernel_;
  StateCalls& calls_;
  const DirectoryLock::Flock flock_;
  std::unique_ptr<DirectoryLock> lock_;
  int fd_ = -1;
  std::vector<std::string> removed_;
  bool made_ = false;      ///< true if Open has made the directory
  bool saved_ = false;     ///< true once a save was begun
  std::vector<int> good_;  ///< steps of the last saves that are known to be good, oldest first
};

}  // namespace sluice::tools
