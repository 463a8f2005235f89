#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "base/owner_process.h"
#include "runtime/optim/save/save_text.h"
#include "runtime/optim/save/state_writer.h"
#include "runtime/optim/step/step_state.h"

namespace sluice::optim {

/// Bytes for a save, in memory that does not change until they are written.
struct SavedBytes {
  /// The number of the tensor in the save.
  std::size_t tensor = 0;
  std::uint64_t offset = 0;
  std::vector<std::span<std::byte>> pieces;
};

}  // namespace sluice::optim

namespace sluice::internal {

/// A save that a SaveHandle waits for. It gets its bytes part by part, and a thread of its own
/// writes them. Threads: any. In a child of fork the save is over and has failed; the object is not
/// destroyed there.
class SaveState {
 public:
  /// `text`: text of the save, without the hashes. `parts`: number of the save's parts.
  static std::shared_ptr<SaveState> Create(std::unique_ptr<optim::StateWriter> writer,
                                           optim::SaveText text,
                                           std::uint64_t parts);

  /// Sets the function that Wait calls, under a lock, while the save lacks parts. Empty: Wait calls
  /// none from now on.
  void SetAskForRest(std::function<void()> ask);
  /// Hands over the bytes of some parts; returns the number to wait for.
  std::uint64_t Submit(std::vector<optim::SavedBytes> bytes, std::uint64_t parts);
  /// Blocks until the save does not read the submitted bytes any more: they are written, or the
  /// save has failed.
  void WaitFor(std::uint64_t number);
  /// Fails the save, as a part cannot be had. Has no effect once the save has all parts.
  void Fail(const absl::Status& status);
  /// Whether the save has failed, and takes no more parts.
  bool failed() const;

  /// Implements SaveHandle::GiveUp.
  void GiveUp();
  bool has_every_part() const;
  bool over() const;
  absl::Status Wait();

 private:
  friend class SaveThread;
  struct Job {
    std::uint64_t number = 0;
    std::vector<optim::SavedBytes> bytes;
    std::uint64_t parts = 0;
  };

  SaveState(std::unique_ptr<optim::StateWriter> writer, optim::SaveText text, std::uint64_t parts);

  /// Body of the thread.
  void Run();
  /// The next job; none when there is no more to write.
  std::optional<Job> NextJob();
  absl::Status Write(const Job& job);
  void Written(const Job& job, const absl::Status& status);
  absl::Status Commit();
  void End(const absl::Status& status);

  const base::OwnerProcess owner_;
  // Members of the thread alone.
  std::unique_ptr<optim::StateWriter> writer_;
  optim::SaveText text_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::function<void()> ask_for_rest_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t submitted_ ABSL_GUARDED_BY(mutex_) = 0;
  /// Number of the last job that was written.
  std::uint64_t written_ ABSL_GUARDED_BY(mutex_) = 0;
  /// Number of the job that is being written; 0: none.
  std::uint64_t writing_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t parts_left_ ABSL_GUARDED_BY(mutex_) = 0;  ///< number of parts that are not written
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<optim::Failure> failure_ ABSL_GUARDED_BY(mutex_);
};

/// The thread of a save. Threads: externally synchronised.
class SaveThread {
 public:
  /// Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<SaveThread>> Create(std::shared_ptr<SaveState> state);
  /// Gives up a save that lacks parts; waits until one that has them all is over.
  ~SaveThread();
  SaveThread(const SaveThread&) = delete;
  SaveThread& operator=(const SaveThread&) = delete;

  /// Waits until the save, if there is one, is over. The save's handle tells its outcome.
  static void Finish(std::unique_ptr<SaveThread> save);
  /// Whether the thread reads no bytes any more.
  bool over() const { return state_->over(); }

 private:
  explicit SaveThread(std::shared_ptr<SaveState> state) : state_(std::move(state)) {}

  const std::shared_ptr<SaveState> state_;
  std::thread thread_;
};

}  // namespace sluice::internal
