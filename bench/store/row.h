#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace sluice::bench {

/// Figures of a whole step of an optimizer with paged states: medians over the rounds.
struct StepFigures {
  std::uint64_t parameters = 0;
  std::uint64_t budget_bytes = 0;  ///< budget of dram
  double seconds = 0;
  double floor_seconds = 0;
  /// Times of the optimizer's thread: blocked for pages (in all, for reads, for writes), and
  /// updating.
  double wait_seconds = 0;
  double wait_read_seconds = 0;
  double wait_write_seconds = 0;
  double compute_seconds = 0;
  double read_bytes = 0;
  double written_bytes = 0;
  /// Time with at least one page on its way in (read) or out (write).
  double read_busy_seconds = 0;
  double write_busy_seconds = 0;
  /// Peak of the process's memory for the step, and its limit.
  std::optional<std::uint64_t> peak_rss_bytes;
  std::uint64_t peak_rss_limit_bytes = 0;
};

/// One line of the result. Fields that do not apply are absent.
struct Row {
  std::string name;  ///< "read/seq/2MiB/io_uring"
  double value = 0;  ///< median over the repetitions
  std::string unit;
  int reps = 0;
  double spread = 0;  ///< (largest - smallest) / median of the value
  /// Whether the buffers of both sides lie on huge pages.
  bool huge_pages = false;

  std::optional<double> ceiling;   ///< median, in `unit`
  std::string ceiling_of;          ///< "fio", "plain-loop"
  std::optional<double> ratio;     ///< median of value / ceiling, round by round
  std::optional<double> over_max;  ///< most by which the value is to exceed the ceiling, in `unit`
  /// Whether `bar` or `over_max` is reached, where the row says so itself.
  std::optional<bool> reached;
  /// Control: the ceiling's second run over its first, as median and lower quartile.
  std::optional<double> control;
  std::optional<double> control_low;
  std::optional<std::uint32_t> depth;
  /// CPU seconds per GiB, checksums included, and their ratio to the ceiling's.
  std::optional<double> cpu_per_gib;
  std::optional<double> cpu_ratio;

  /// Figures of an optimizer's kernel: its instructions, and the time of an update.
  std::string simd;
  std::optional<double> bar;  ///< ratio that is asked for
  std::optional<double> ns_per_parameter;

  std::optional<StepFigures> step;

  std::string peer;                  ///< name of the peer
  std::optional<double> peer_value;  ///< rate of the peer in `unit`
  std::optional<double> peer_ratio;  ///< value / peer_value
};

using RowFn = std::function<void(const Row&)>;

}  // namespace sluice::bench
