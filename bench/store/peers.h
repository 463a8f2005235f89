#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/store/row.h"
#include "bench/store/session.h"

namespace sluice::bench {

inline constexpr std::uint64_t kPeerPageBytes = std::uint64_t{2} << 20;

/// The names of all rows of MeasurePeers.
std::vector<std::string> PeerRowNames();

/// Rows "peer/DIRECTION/random/2MiB/PEER": what a reader would have otherwise, at random 2 MiB
/// pages, each repetition beside one of our own. Errors: those of RunStoreBench.
absl::Status MeasurePeers(const Session& session, const RowFn& add_row);

}  // namespace sluice::bench
