#pragma once

#include <cstdint>
#include <string>

#include "tests/faults/cases/fault_cases.h"

/// What the cases are made of.

namespace sluice::faults {

using testing::FaultPlan;
using testing::kAlways;
using Code = absl::StatusCode;

inline constexpr auto kRead = io::IoDirection::kRead;
inline constexpr auto kWrite = io::IoDirection::kWrite;

// Plans, all from one attempt on, in one direction.

/// Part of the bytes move, then comes the error.
FaultPlan Error(io::IoDirection direction, int error_number, std::uint64_t times);
/// Nothing moves.
FaultPlan Refused(io::IoDirection direction, int error_number, std::uint64_t times);
/// Not only where it began.
FaultPlan Everywhere(FaultPlan plan);
FaultPlan Short(io::IoDirection direction, std::uint64_t moved, std::uint64_t times);
/// Success is reported.
FaultPlan Silent(io::IoDirection direction, FaultPlan::Kind kind, std::uint64_t times = 1);
/// The same with every attempt.
FaultPlan FromThereOn(io::IoDirection direction, FaultPlan::Kind kind);
/// In either direction.
FaultPlan Once(FaultPlan::Kind kind);

RunOptions WithPlan(const FaultPlan& plan, Target target = Target::kAny);
/// With so many slots that none has to be used that lost a page.
RunOptions WithRoom(const FaultPlan& plan, Target target = Target::kAny);
/// On pages of two blocks.
RunOptions OnSplitPages(const FaultPlan& plan);

// Cases.

/// Tried again until it is over: nobody notices.
FaultCase Passes(const std::string& name, const FaultPlan& plan);
/// Tried again until that is too much: who needs the page or its room is told.
FaultCase Stays(const std::string& name, const FaultPlan& plan, Code code);
/// An operation of the store that fails and is made again, a write in another place: no op notices.
FaultCase MadeAgain(const std::string& name, const FaultPlan& plan, Code code);
/// As long as it lasts nothing leaves memory: who needs room is told.
FaultCase Full(const std::string& name, const FaultPlan& plan, Code code);
/// The store gives up the page: it is reproduced, and nobody notices, or it is lost by name.
FaultCase Unreadable(const std::string& name, const FaultPlan& plan, Target target);
/// What gives the page up, and with it its place, retires that: the page is lost by name.
FaultCase Lost(const std::string& name, const RunOptions& options);
/// Memory that is to be registered is not, but for its first bytes: nobody notices but the stats.
FaultCase Unregistered(const std::string& name, std::uint64_t registered, std::uint64_t times);
/// A ring of four entries whose kernel takes nothing for a while.
FaultCase RefusedSubmissions(const std::string& name, int error_number, std::uint64_t times);

}  // namespace sluice::faults
