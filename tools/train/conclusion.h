#pragma once

#include "tools/support/console.h"
#include "tools/support/interrupt.h"
#include "tools/train/run/train_run.h"
#include "tools/train/run/train_session.h"
#include "tools/train/settings/train_flags.h"

namespace sluice::tools {

/// Ends a run that no failure has ended: writes its outputs and prints its report. An output that
/// fails keeps back no other one. Returns the exit code.
int Conclude(TrainRun& run,
             TrainSession& session,
             const TrainFlags& flags,
             Console& console,
             const InterruptWatch& watch);

}  // namespace sluice::tools
