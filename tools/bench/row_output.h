#pragma once

#include <string>

#include "bench/store/row.h"

namespace sluice::tools {

/// The machine that a benchmark ran on.
struct MachineFacts {
  std::string cpu;
  int cpus = 0;  ///< processors that this process may run on
  std::string kernel;
  std::string file_system;  ///< empty where none matters
};
MachineFacts ReadMachineFacts();
/// With the file system of `directory`.
MachineFacts ReadMachineFacts(const std::string& directory);

/// One line of JSON, without its newline. A field that does not apply is absent.
std::string RowToJson(const std::string& bench, const bench::Row& row, const MachineFacts& facts);

/// The table for people: its head, and one line per row, without newlines.
std::string TableHead();
std::string RowToText(const bench::Row& row);

/// The same of optimizer kernels.
std::string UpdateTableHead();
std::string UpdateRowToText(const bench::Row& row);

/// The same of whole steps.
std::string StepTableHead();
std::string StepRowToText(const bench::Row& row);

}  // namespace sluice::tools
