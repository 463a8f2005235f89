#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "runtime/sim/files/json_line.h"
#include "runtime/sim/files/op_parser.h"
#include "runtime/sim/files/read_limits.h"
#include "runtime/sim/schedule/file_schedule.h"
#include "runtime/sim/schedule/op_order.h"

namespace sluice::sim {

/// Collects the lines of one schedule. Threads: externally synchronised.
class ScheduleBuilder {
 public:
  /// Line of an error, and the error.
  struct Failure {
    std::uint64_t line = 0;
    absl::Status status;
  };

  /// `model_bytes_left` is counted down by the bytes that are kept. It outlives the builder.
  ScheduleBuilder(const ReadLimits& limits,
                  std::uint64_t header_line,
                  std::uint64_t* model_bytes_left);

  /// Takes the header. Errors: InvalidArgument.
  absl::Status Begin(const Json& header);
  /// Takes a tensor's or an op's line. Errors: InvalidArgument, ResourceExhausted.
  absl::Status AddTensor(const Json& line);
  absl::Status AddOp(const Json& line, std::uint64_t number);
  /// Checks that need all lines. `last`: number of the last line. An OK status: there is no
  /// failure.
  Failure Check(std::uint64_t last) const;

  const FileSchedule& schedule() const { return schedule_; }
  std::uint64_t header_line() const { return header_line_; }
  FileSchedule TakeSchedule() { return std::move(schedule_); }

 private:
  absl::Status Charge(std::uint64_t bytes);
  absl::Status PlaceTensor(const Json& line, FileTensor* tensor);
  absl::Status CheckWrites(const FileOp& op) const;
  absl::Status CountTraffic(const FileOp& op);
  absl::Status CountLane(const FileOp& op);
  absl::Status CheckCounts() const;

  const ReadLimits& limits_;
  const std::uint64_t header_line_;
  std::uint64_t* const model_bytes_left_;
  FileSchedule schedule_;
  std::optional<std::uint64_t> ops_promised_;
  std::optional<std::uint64_t> tensors_promised_;
  TensorIndex tensor_of_id_;
  /// The first byte behind the last tensor of each segment.
  absl::flat_hash_map<std::uint64_t, std::uint64_t> segment_end_;
  absl::flat_hash_set<std::string> lanes_;
  std::vector<ForwardWait> forward_;
  std::uint64_t tensor_bytes_ = 0;
  std::uint64_t traffic_bytes_ = 0;
};

}  // namespace sluice::sim
