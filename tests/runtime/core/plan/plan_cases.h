#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "runtime/core/plan/plan.h"

namespace sluice::core {

/// Comparisons of planned moves, for tests.
inline bool operator==(const PlannedLeave& a, const PlannedLeave& b) {
  return a.first_page == b.first_page && a.pages == b.pages && a.tier == b.tier &&
         a.stays == b.stays;
}
inline bool operator==(const PlannedFetch& a, const PlannedFetch& b) {
  return a.first_page == b.first_page && a.pages == b.pages && a.tier == b.tier &&
         a.distance == b.distance && a.mode == b.mode && a.map == b.map;
}

/// A page takes half a second in each direction.
inline constexpr PlanLink kTwoPerStep{.in_s = 0.5, .out_s = 0.5};

/// Steps of one second, each over when the next begins; links alike; the last tier takes all.
inline PlanInput EvenSteps(std::uint32_t steps,
                           std::initializer_list<FrameIndex> frames,
                           const PlanLink& link = kTwoPerStep) {
  PlanInput input{.step_seconds = std::vector<double>(steps, 1.0), .frames = frames};
  for (std::uint32_t i = 0; i < steps; ++i) input.step_ends.push_back(i + 1);
  input.links.assign(frames.size(), link);
  input.frames.push_back(1000);
  return input;
}

inline PlanUse ReadAt(std::uint32_t step, TierIndex tier = 0) {
  return {.step = step, .tier = tier, .mode = PageMode::kRead};
}
inline PlanUse WriteAt(std::uint32_t step, TierIndex tier = 0) {
  return {.step = step, .tier = tier, .mode = PageMode::kWrite};
}
inline PlanUse OverwriteAt(std::uint32_t step) {
  return {.step = step, .mode = PageMode::kOverwrite};
}
inline PlanUse Last(PlanUse use) {
  use.dies = true;
  return use;
}

/// Adds an item with pages behind those of the items so far. Returns the first page.
inline PageIndex AddItem(PlanInput* input, std::uint32_t pages, std::vector<PlanUse> uses) {
  const PageIndex first =
      input->items.empty() ? 0 : input->items.back().first_page + input->items.back().pages;
  input->items.push_back({.first_page = first, .pages = pages, .uses = std::move(uses)});
  return first;
}
/// Pages that live only from step `from` to the end of step `to`, and so cannot leave.
inline PageIndex AddTemporary(PlanInput* input,
                              std::uint32_t pages,
                              std::uint32_t from,
                              std::uint32_t to) {
  std::vector<PlanUse> uses = {OverwriteAt(from)};
  for (std::uint32_t step = from + 1; step <= to; ++step) uses.push_back(WriteAt(step));
  uses.back().dies = true;
  return AddItem(input, pages, std::move(uses));
}

}  // namespace sluice::core
