#pragma once

#include <string>
#include <utility>

#include "bench/store/row.h"
#include "tools/support/console.h"

namespace sluice::tools {

/// The machine that a benchmark ran on.
struct MachineFacts {
  std::string cpu;
  int cpus = 0;  ///< processors that this process may run on
  std::string kernel;
  std::string file_system;  ///< file system of the benchmark; empty where none matters
};
/// Facts of this machine, with the file system of `directory`, if that is not empty.
MachineFacts ReadMachineFacts(const std::string& directory);

/// The row as one line of JSON, without its newline. Fields that do not apply are absent.
std::string RowToJson(const std::string& bench, const bench::Row& row, const MachineFacts& facts);

/// The table for people: its head, and a line per row, without newlines.
std::string TableHead();
std::string RowToText(const bench::Row& row);

/// Prints rows as they come.
class RowPrinter {
 public:
  RowPrinter(std::string bench, MachineFacts facts, Console& console)
      : bench_(std::move(bench)), facts_(std::move(facts)), console_(console) {}

  void Add(const bench::Row& row);

 private:
  const std::string bench_;
  const MachineFacts facts_;
  Console& console_;
  bool has_head_ = false;
};

}  // namespace sluice::tools
