#pragma once

#include <cstdint>
#include <string>

#include "tests/faults/cases/fault_cases.h"

/// Parts that the cases are made of.

namespace sluice::faults {

using testing::FaultPlan;
using testing::kAlways;
using Code = absl::StatusCode;

inline constexpr auto kRead = io::IoDirection::kRead;
inline constexpr auto kWrite = io::IoDirection::kWrite;

// Plans, all from one attempt on, in one direction.

/// A fault that moves part of the bytes, then gives the error.
FaultPlan Error(io::IoDirection direction, int error_number, std::uint64_t times);
/// A fault that moves no bytes.
FaultPlan Refused(io::IoDirection direction, int error_number, std::uint64_t times);
/// The plan, which also strikes other places than the first.
FaultPlan Everywhere(FaultPlan plan);
FaultPlan Short(io::IoDirection direction, std::uint64_t moved, std::uint64_t times);
/// A fault that the engine reports as a success.
FaultPlan Silent(io::IoDirection direction, FaultPlan::Kind kind, std::uint64_t times = 1);
/// A silent fault of every attempt from one on.
FaultPlan FromThereOn(io::IoDirection direction, FaultPlan::Kind kind);
/// A fault that strikes once, in either direction.
FaultPlan Once(FaultPlan::Kind kind);

RunOptions WithPlan(const FaultPlan& plan, Target target = Target::kAny);
/// Options with so many slots that no slot which lost a page is used again.
RunOptions WithRoom(const FaultPlan& plan, Target target = Target::kAny);
/// Options with pages of two blocks.
RunOptions OnSplitPages(const FaultPlan& plan);

// Cases.

/// A fault that ends after some retries: nobody notices.
FaultCase Passes(const std::string& name, const FaultPlan& plan);
/// A fault that outlasts the retries: whoever needs the page or its room is told.
FaultCase Stays(const std::string& name, const FaultPlan& plan, Code code);
/// A fault that fails one operation, which is made again (a write in another place): no op notices.
FaultCase MadeAgain(const std::string& name, const FaultPlan& plan, Code code);
/// A fault that keeps pages in memory while it lasts: whoever needs room is told.
FaultCase Full(const std::string& name, const FaultPlan& plan, Code code);
/// A fault that makes the store give up a page. The page is reproduced, and nobody notices, or it
/// is lost by name.
FaultCase Unreadable(const std::string& name, const FaultPlan& plan, Target target);
/// A fault that makes the store give up a page and retire its place: the page is lost by name.
FaultCase Lost(const std::string& name, const RunOptions& options);
/// A fault that registers only the first bytes of a piece: nobody notices but the stats.
FaultCase Unregistered(const std::string& name, std::uint64_t registered, std::uint64_t times);
/// A fault that makes the kernel take nothing from a ring of four entries for a while.
FaultCase RefusedSubmissions(const std::string& name, int error_number, std::uint64_t times);

}  // namespace sluice::faults
