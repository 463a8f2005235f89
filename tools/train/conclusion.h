#pragma once

#include "tools/support/console.h"
#include "tools/support/interrupt.h"
#include "tools/train/run/train_run.h"
#include "tools/train/run/train_session.h"
#include "tools/train/settings/train_flags.h"

namespace sluice::tools {

/// Ends a run that no failure has ended: writes and prints what it has to say, of which a part that
/// fails keeps back no other one. The exit code.
int Conclude(TrainRun& run,
             TrainSession& session,
             const TrainFlags& flags,
             Console& console,
             const InterruptWatch& watch);

}  // namespace sluice::tools
