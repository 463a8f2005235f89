#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/optim/layout.h"
#include "runtime/optim/op_pipeline.h"
#include "runtime/optim/optimizer_impl.h"
#include "runtime/optim/pieces.h"
#include "runtime/optim/state_file.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using optim::ParameterEntry;
using optim::StateRecord;

/// Ops whose pages are asked for ahead of the one that is copied.
constexpr std::size_t kCopyDepth = 4;

/// A tensor that is saved.
struct Saved {
  TensorId tensor;
  std::string name;
  std::uint64_t bytes = 0;
};

absl::StatusOr<std::vector<Saved>> SavedTensors(const Runtime& runtime,
                                                const std::deque<ParameterEntry>& entries) {
  std::vector<Saved> saved;
  for (const ParameterEntry& entry : entries) {
    std::vector<TensorId> tensors = {entry.tensor};
    tensors.insert(tensors.end(), entry.states.begin(), entry.states.end());
    tensors.insert(tensors.end(), entry.scales.begin(), entry.scales.end());
    for (const TensorId tensor : tensors) {
      SLUICE_ASSIGN_OR_RETURN(const std::string name, runtime.NameOfTensor(tensor));
      SLUICE_ASSIGN_OR_RETURN(const Bytes bytes, runtime.SizeOfTensor(tensor));
      saved.push_back({tensor, name, bytes.count()});
    }
  }
  return saved;
}

using PieceFn = std::function<absl::Status(std::uint64_t offset, std::span<std::byte> piece)>;

/// Calls `visit` with the tensor's bytes, piece after piece.
absl::Status ForEachPiece(Runtime& runtime,
                          const std::string& lane,
                          const Saved& saved,
                          AccessMode mode,
                          const PieceFn& visit) {
  optim::OpPipeline pipeline(runtime, lane);
  const std::uint64_t step = runtime.PageBytes().count();
  std::uint64_t asked = 0;
  for (std::uint64_t begin = 0; begin < saved.bytes; begin += step) {
    for (; asked < saved.bytes && pipeline.asked() <= kCopyDepth; asked += step) {
      const ByteRange range{asked, std::min(step, saved.bytes - asked)};
      pipeline.Ask("copy." + saved.name,
                   {{.tensor = saved.tensor,
                     .range = range,
                     .mode = mode,
                     .tier = kDram0,
                     .contiguous = false}});
    }
    SLUICE_ASSIGN_OR_RETURN(const optim::RunningOp running, pipeline.Next());
    std::uint64_t offset = begin;
    for (const std::span<std::byte> piece : running.leases[0].Spans()) {
      SLUICE_RETURN_IF_ERROR(visit(offset, piece));
      offset += piece.size();
    }
  }
  return absl::OkStatus();
}

Json RatesToJson(const GroupRates& rates) {
  return Json::array(
      {rates.learning_rate, rates.beta1, rates.beta2, rates.eps, rates.weight_decay});
}

/// Five numbers that RatesToJson made; nothing when they are not.
std::optional<GroupRates> RatesFromJson(const Json& json) {
  if (!json.is_array() || json.size() != 5) return std::nullopt;
  double values[5];
  for (std::size_t i = 0; i < 5; ++i) {
    if (!json[i].is_number()) return std::nullopt;
    values[i] = json[i].get<double>();
  }
  return GroupRates{values[0], values[1], values[2], values[3], values[4]};
}

absl::Status Damaged(const std::string& what) {
  return absl::DataLossError(
      base::ToAbsl(fmt::format("{}: {}; use another save", optim::kStateFileName, what)));
}

/// What describes a save.
absl::StatusOr<Json> ParseText(const std::string& file_text) {
  Json text = Json::parse(file_text, nullptr, false);
  if (!text.is_object() || !text.contains("layout") || !text["layout"].is_string() ||
      !text.contains("step") || !text["step"].is_number_unsigned() || !text.contains("rates") ||
      !text["rates"].is_array() || !text.contains("hashes") ||
      (text.contains("note") && !text["note"].is_string())) {
    return Damaged("its description is not that of a save");
  }
  return text;
}

/// The hashes of all records, which lie one after another behind the file's mark.
absl::StatusOr<std::vector<StateRecord>> ReadRecords(const Json& hashes,
                                                     const std::vector<Saved>& saved,
                                                     std::uint64_t end) {
  if (!hashes.is_array() || hashes.size() != saved.size()) {
    return Damaged("it has not as many checksums as tensors");
  }
  std::vector<StateRecord> records;
  for (std::size_t i = saved.size(); i-- > 0;) {
    if (!hashes[i].is_number_unsigned()) return Damaged("a checksum is no number");
    if (end < saved[i].bytes) return Damaged("its records have not the sizes of the tensors");
    end -= saved[i].bytes;
    records.push_back({end, saved[i].bytes, hashes[i].get<std::uint64_t>()});
  }
  std::reverse(records.begin(), records.end());
  return records;
}

}  // namespace

std::string OffloadedOptimizer::Impl::Layout() const {
  Json groups = Json::array();
  for (const Group& group : groups_) {
    Json parameters = Json::array();
    for (const std::uint32_t index : group.entries) {
      const ParameterEntry& entry = entries_[index];
      parameters.push_back(
          {{"name", entry.name}, {"type", ToString(entry.type)}, {"count", entry.count}});
    }
    groups.push_back({{"name", group.name}, {"parameters", std::move(parameters)}});
  }
  return Json{{"optimizer", ToString(options_.kind)},
              {"state", ToString(options_.state)},
              {"seed", options_.seed},
              {"groups", std::move(groups)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status OffloadedOptimizer::Impl::Save(const std::string& directory, std::string_view note) {
  Settle();
  SLUICE_RETURN_IF_ERROR(CheckIdle());
  for (const Group& group : groups_) {
    if (!group.accumulated) continue;
    return absl::FailedPreconditionError(base::ToAbsl(fmt::format(
        "group '{}' has gradients that are added up, which a save does not hold; save after a step",
        group.name)));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Saved> saved, SavedTensors(runtime_, entries_));
  SLUICE_ASSIGN_OR_RETURN(const auto file, optim::StateFileWriter::Create(directory));
  Json hashes = Json::array();
  for (const Saved& tensor : saved) {
    file->BeginRecord();
    SLUICE_RETURN_IF_ERROR(ForEachPiece(
        runtime_,
        options_.lane,
        tensor,
        AccessMode::kRead,
        [&](std::uint64_t, std::span<std::byte> piece) { return file->Append(piece); }));
    hashes.push_back(file->EndRecord().hash);
  }
  Json rates = Json::array();
  for (const Group& group : groups_) rates.push_back(RatesToJson(group.rates));
  const Json text = {{"layout", Layout()},
                     {"step", step()},
                     {"note", note},
                     {"rates", std::move(rates)},
                     {"hashes", std::move(hashes)}};
  return file->Commit(text.dump(-1, ' ', false, Json::error_handler_t::replace));
}

absl::StatusOr<OptimizerSave> OffloadedOptimizer::Impl::ReadSave(const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(const auto file, optim::StateFileReader::Open(directory));
  SLUICE_ASSIGN_OR_RETURN(const Json text, ParseText(file->text()));
  return OptimizerSave{.step = text["step"].get<std::int64_t>(), .note = text.value("note", "")};
}

absl::Status OffloadedOptimizer::Impl::Load(const std::string& directory) {
  Settle();
  if (absl::Status idle = CheckIdle(); !idle.ok() && !CanReplaceStep()) return idle;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Saved> saved, SavedTensors(runtime_, entries_));
  SLUICE_ASSIGN_OR_RETURN(const auto file, optim::StateFileReader::Open(directory));
  SLUICE_ASSIGN_OR_RETURN(const Json text, ParseText(file->text()));
  const std::string difference =
      optim::LayoutDifference(text["layout"].get<std::string>(), Layout());
  if (!difference.empty()) {
    return absl::InvalidArgumentError(base::ToAbsl(fmt::format(
        "{} in {} is of another optimizer: {}", optim::kStateFileName, directory, difference)));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<StateRecord> records,
                          ReadRecords(text["hashes"], saved, file->records_end()));
  std::vector<GroupRates> rates;
  for (const Json& of_group : text["rates"]) {
    const std::optional<GroupRates> read = RatesFromJson(of_group);
    if (!read) return Damaged("the rates of a group are not five numbers");
    rates.push_back(*read);
  }
  if (rates.size() != groups_.size()) return Damaged("it has not the rates of every group");
  for (std::size_t i = 0; i < saved.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(file->Verify(records[i], saved[i].name));
  }
  for (std::size_t i = 0; i < saved.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(ForEachPiece(runtime_,
                                        options_.lane,
                                        saved[i],
                                        AccessMode::kOverwrite,
                                        [&](std::uint64_t offset, std::span<std::byte> piece) {
                                          return file->Read(records[i].offset + offset, piece);
                                        }));
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].rates = rates[i];
  OnLoaded(text["step"].get<std::int64_t>());
  return absl::OkStatus();
}

bool OffloadedOptimizer::Impl::CanReplaceStep() const {
  const base::MutexLock lock(mutex_);
  return failed_;
}

void OffloadedOptimizer::Impl::OnLoaded(std::int64_t step) {
  progress_.SetAll(step);
  const base::MutexLock lock(mutex_);
  step_ = step;
  failed_ = over_ = false;
  state_ = nullptr;
  for (Group& group : groups_) group.ready = group.accumulated = false;
}

}  // namespace sluice
