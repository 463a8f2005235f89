#include "python/binding/session.h"

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "python/binding/held_lease.h"
#include "python/binding/python_optimizer.h"
#include "python/binding/status.h"
#include "python/binding/tensor_state.h"
#include "python/binding/waiting.h"
#include "sluice/config.h"

namespace sluice::python {
namespace {

absl::StatusOr<RuntimeOptions> ReadOptions(const std::optional<std::string>& path,
                                           const std::vector<std::string>& assignments) {
  absl::StatusOr<Config> config = path ? Config::Load(*path) : Config::Parse("", "options");
  if (!config.ok()) return config.status();
  for (const std::string& assignment : assignments) {
    const absl::Status set = config->Set(assignment);
    if (!set.ok()) return set;
  }
  absl::StatusOr<RuntimeOptions> options = ReadRuntimeOptions(*config);
  if (!options.ok()) return options;
  const absl::Status finished = config->Finish();
  if (!finished.ok()) return finished;
  // Views of hbm outlive their leases. Where mappings stayed, one would show another tensor's
  // bytes.
  if (options->hbm_bytes.count() > 0 && !options->memory.keep_mappings) {
    options->memory.keep_mappings = false;
  }
  options->cuda.why_none = "Python reads and writes leases on the CPU";
  if (options->device != DeviceKind::kCuda) return options;
  return absl::InvalidArgumentError(
      "\"device.kind\" is that of a GPU, and Python reads and writes leases on the CPU: "
      "device.kind = \"emulated\"");
}

/// Whether a signal handler of Python has raised.
bool SignalRaised() {
  const nanobind::gil_scoped_acquire acquired;
  return PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;
}

/// Whether the two have a page in common. A tensor of a session starts with a page of its own.
bool ShareAPage(const TensorUse& a, const TensorUse& b, std::uint64_t page_bytes) {
  const auto first = [&](const TensorUse& use) { return use.range.offset / page_bytes; };
  const auto last = [&](const TensorUse& use) {
    return (use.range.offset + use.range.bytes - 1) / page_bytes;
  };
  return a.tensor == b.tensor && first(a) <= last(b) && first(b) <= last(a);
}

bool WaitsFor(const TensorUse& asked, const TensorUse& held, std::uint64_t page_bytes) {
  const bool writes = asked.mode != AccessMode::kRead || held.mode != AccessMode::kRead;
  return writes && ShareAPage(asked, held, page_bytes);
}

}  // namespace

std::shared_ptr<Session> Session::Create(const std::optional<std::string>& path,
                                         const std::vector<std::string>& assignments,
                                         std::pair<std::uint32_t, std::uint32_t> share) {
  auto reports = std::make_shared<Reports>();
  RuntimeOptions options = ValueOrRaise(ReadOptions(path, assignments));
  options.log = [reports](LogLevel level, std::string_view text) { reports->AddLine(level, text); };
  options.trace = [reports](const TraceSpan& span) { reports->AddSpan(span); };
  options.stop = SignalRaised;
  options.share = {.index = share.first, .count = share.second};
  const std::string directory = options.nvme_bytes == Bytes() ? "" : options.io.directory;
  auto runtime = WithoutGil([&] { return Runtime::Create(std::move(options)); });
  if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
  return std::shared_ptr<Session>(new Session(
      std::shared_ptr<Runtime>(ValueOrRaise(std::move(runtime))), std::move(reports), directory));
}

Session::Session(std::shared_ptr<Runtime> runtime,
                 std::shared_ptr<Reports> reports,
                 std::string spill_directory)
    : process_(getpid()),
      page_bytes_(runtime->PageBytes().count()),
      reports_(std::move(reports)),
      spill_directory_(std::move(spill_directory)),
      runtime_(std::move(runtime)) {}

Session::~Session() { Close(); }

std::shared_ptr<Runtime> Session::RuntimeOrNull() const {
  if (in_child()) return nullptr;
  const std::lock_guard lock(runtime_mutex_);
  return runtime_;
}

std::shared_ptr<Runtime> Session::runtime() const {
  StopIfLeaving();
  RefuseChild();
  std::shared_ptr<Runtime> runtime = RuntimeOrNull();
  if (runtime == nullptr) Raise(absl::FailedPreconditionError("the runtime is closed"));
  return runtime;
}

bool Session::closed() const { return RuntimeOrNull() == nullptr; }

bool Session::in_child() const { return getpid() != process_; }

void Session::RefuseChild() const {
  if (!in_child()) return;
  Raise(absl::FailedPreconditionError(
      "the runtime belongs to the parent of this process (fork), and its memory is not mapped "
      "here: a child makes a runtime of its own"));
}

void Session::Add(const std::shared_ptr<TensorState>& tensor) {
  const std::lock_guard lock(mutex_);
  if (tensors_.size() >= tensors_to_look_at_) {
    std::erase_if(tensors_, [](const auto& entry) { return entry.second.expired(); });
    tensors_to_look_at_ = 2 * tensors_.size() + 64;
  }
  tensors_[tensor->id().value] = tensor;
}

std::shared_ptr<const int> Session::TakeOptimizerNumber() {
  const auto give_back = [session = weak_from_this()](const int* number) {
    const std::unique_ptr<const int> taken(number);
    const std::shared_ptr<Session> alive = session.lock();
    if (alive == nullptr) return;
    const std::lock_guard lock(alive->mutex_);
    alive->optimizer_numbers_.erase(*taken);
  };
  const std::lock_guard lock(mutex_);
  int number = 0;
  while (!optimizer_numbers_.insert(number).second) ++number;
  return {new int(number), give_back};
}

void Session::Add(const std::shared_ptr<PythonOptimizer>& optimizer) {
  const std::lock_guard lock(mutex_);
  std::erase_if(optimizers_, [](const auto& weak) { return weak.expired(); });
  optimizers_.push_back(optimizer);
}

void Session::CloseOptimizers() {
  std::vector<std::weak_ptr<PythonOptimizer>> optimizers;
  {
    const std::lock_guard lock(mutex_);
    optimizers = std::exchange(optimizers_, {});
  }
  for (const auto& weak : optimizers) {
    if (const std::shared_ptr<PythonOptimizer> optimizer = weak.lock()) optimizer->Close();
  }
}

void Session::Add(const HeldLease* lease, TensorUse use) {
  const std::lock_guard lock(mutex_);
  held_[lease] = {use, std::this_thread::get_id()};
}

void Session::Remove(const HeldLease* lease) {
  const std::lock_guard lock(mutex_);
  held_.erase(lease);
}

void Session::RefuseOwnDeadlock(const std::vector<TensorUse>& uses) const {
  std::string name;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [lease, held] : held_) {
      if (held.thread != std::this_thread::get_id()) continue;
      for (const TensorUse& use : uses) {
        if (WaitsFor(use, held.use, page_bytes_)) name = use.tensor->name();
      }
    }
  }
  if (name.empty()) return;
  Raise(absl::AbortedError("would deadlock: this thread holds a lease of '" + name +
                           "' already, and would wait for itself. Only read leases may share a "
                           "page; ask for the tensor once, in the mode that all need"));
}

std::string Session::BeginLane(std::thread::id thread) {
  const std::lock_guard lock(mutex_);
  const auto [entry, inserted] = lanes_.try_emplace(thread);
  Lane& lane = entry->second;
  if (inserted) {
    lane.number = -1;
    int number = 0;
    const auto taken = [&](const auto& other) { return other.second.number == number; };
    while (std::any_of(lanes_.begin(), lanes_.end(), taken)) ++number;
    lane.number = number;
  }
  ++lane.ops;
  return "python." + std::to_string(lane.number);
}

void Session::EndLane(std::thread::id thread) {
  const std::lock_guard lock(mutex_);
  const auto lane = lanes_.find(thread);
  if (--lane->second.ops == 0) lanes_.erase(lane);
}

int Session::LeasesOf(const TensorState& tensor) const {
  return static_cast<int>(std::count_if(held_.begin(), held_.end(), [&](const auto& entry) {
    return entry.second.use.tensor == &tensor;
  }));
}

std::vector<std::string> Session::InUse() const {
  std::vector<std::string> phrases;
  std::vector<std::shared_ptr<TensorState>> tensors;  // tensors to release without the lock
  const std::lock_guard lock(mutex_);
  for (const auto& [id, weak] : tensors_) {
    tensors.push_back(weak.lock());
    if (tensors.back() == nullptr) continue;
    const TensorState& tensor = *tensors.back();
    const std::string users = tensor.Users(LeasesOf(tensor));
    if (!users.empty()) phrases.push_back("'" + tensor.name() + "': " + users);
  }
  return phrases;
}

void Session::Free(TensorId tensor) {
  const std::shared_ptr<Runtime> runtime = RuntimeOrNull();
  // Errors have no reader here: NotFound cannot happen, and a child of fork frees nothing.
  if (runtime != nullptr) (void)runtime->Free(tensor);
}

void Session::Close() {
  if (in_child()) return;
  CloseOptimizers();
  std::shared_ptr<Runtime> runtime;
  {
    const std::lock_guard lock(runtime_mutex_);
    runtime = std::exchange(runtime_, nullptr);
  }
  if (runtime == nullptr) return;
  if (PyGILState_Check() == 0) {
    runtime.reset();
  } else {
    WithoutGil([&] { runtime.reset(); });
  }
}

bool Session::LeasedElsewhere() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(held_.begin(), held_.end(), [](const auto& entry) {
    return entry.second.thread != std::this_thread::get_id();
  });
}

void SessionAtExit::Close(bool daemons) {
  const std::shared_ptr<Session> session = session_.lock();
  if (session == nullptr) return;
  if (session->LeasedElsewhere() || (daemons && !session->InUse().empty())) {
    (void)new std::shared_ptr<Session>(session);  // this copy is never deleted
  } else {
    session->Close();
  }
}

}  // namespace sluice::python
