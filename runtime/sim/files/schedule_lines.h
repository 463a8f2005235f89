#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

/// The lines of a schedule file, each with its newline.

struct ScheduleHeader {
  const std::string& name;
  const std::string& key;
  const std::string& source;
  std::uint64_t page_bytes = 0;
  std::size_t ops = 0;
  std::size_t tensors = 0;
};

std::string HeaderLine(const ScheduleHeader& header);
std::string TensorLine(const FileTensor& tensor);

/// Meaning of the indices in an op.
struct OpNames {
  /// The id and the bytes of a tensor.
  struct TensorFacts {
    std::uint64_t id = 0;
    std::uint64_t bytes = 0;
  };
  std::span<const TensorFacts> tensors;
  /// Ids of ops; empty when they are the indices.
  std::span<const std::uint64_t> ops;
};
std::string OpLine(const FileOp& op, const OpNames& names);

}  // namespace sluice::sim
