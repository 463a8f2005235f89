#include "tools/train/run/link_pacer.h"

#include "base/status.h"

namespace sluice::tools {

absl::Status LinkPacer::SetPace(double ram_step_seconds, TrainSession& session, RunReport* report) {
  done_ = true;
  const absl::StatusOr<Schedule> recorded = session.runtime().RecordedSchedule(MainKey(*report));
  if (!recorded.ok()) return base::Annotate(recorded.status(), "device.emulated.load");
  const Schedule& schedule = *recorded;
  const LinkBounds bounds = ComputeLinkBounds(schedule, session.settings().runtime);
  rate_ = RateForSeconds(bounds.at(kDeviceLink).bytes, load_ * ram_step_seconds);
  // A model that fits into hbm has nothing to be slowed down.
  if (!(rate_ > 0)) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(session.runtime().SetEmulatedRates(rate_, rate_));
  LinkRates& rates = session.rates()[kDeviceLink];
  rates = LimitRates(rates, rate_, rate_);
  for (StepRecord& step : report->steps) step.judged = false;
  return absl::OkStatus();
}

}  // namespace sluice::tools
