#include "tests/runtime/core/driver/frame_model.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace sluice::core {
namespace {

std::string Where(PageIndex page, TierIndex tier, FrameIndex frame) {
  return fmt::format("page {} in tier {} frame {}", page, tier, frame);
}

}  // namespace

FrameModel::FrameModel(const std::vector<FrameIndex>& frames,
                       std::uint32_t copies_in_flight_max,
                       const ShadowModel* shadow,
                       Verdict* verdict)
    : copies_in_flight_max_(copies_in_flight_max),
      shadow_(shadow),
      verdict_(verdict),
      frames_(frames),
      copies_(&frames_, shadow, verdict) {}

bool FrameModel::Check(bool condition, const std::string& what) {
  return verdict_->Check(condition, what);
}

bool FrameModel::CheckFrame(PageIndex page, TierIndex tier, FrameIndex frame) {
  return Check(shadow_->page(page).exists, fmt::format("page {} does not exist", page)) &&
         Check(frames_.Exists(tier, frame), "no such frame: " + Where(page, tier, frame));
}

// --- tasks ------------------------------------------------------------------------------------

void FrameModel::Start(const StartCopy& copy) {
  if (!CheckFrame(copy.page, copy.source, copy.source_frame) ||
      !CheckFrame(copy.page, copy.target, copy.target_frame)) {
    return;
  }
  CheckSource(copy);
  CheckTarget(copy.page, copy.target, copy.target_frame);
  // A copy upwards may pass any tier: a file is read into the tier above the last.
  Check(copy.target < copy.source || copy.target <= shadow_->page(copy.page).lowest,
        "below the page's lowest tier: " + Where(copy.page, copy.target, copy.target_frame));
  CheckLinkLoad(copy);
  SimFrame& source = frames_.At(copy.source, copy.source_frame);
  CheckGeneration(copy, source.stamp);
  ++source.readers;
  ++copies_started_;
  StartTask(copy.task,
            {.action = copy,
             .page = copy.page,
             .target = copy.target,
             .target_frame = copy.target_frame,
             .stamp = source.stamp,
             .garbage = !source.has_content});
}

void FrameModel::Start(const StartFill& fill) {
  if (!CheckFrame(fill.page, fill.tier, fill.frame)) return;
  CheckTarget(fill.page, fill.tier, fill.frame);
  StartTask(fill.task,
            {.action = fill,
             .page = fill.page,
             .target = fill.tier,
             .target_frame = fill.frame,
             .stamp = FillStamp(fill),
             .garbage = fill.kind == FillKind::kUndefined});
}

void FrameModel::Hasten(const HastenCopy& order) {
  const auto found = tasks_.find(order.task);
  if (!Check(found != tasks_.end(), fmt::format("hastens task {}, not in flight", order.task))) {
    return;
  }
  const StartCopy* copy = found->second.copy();
  const std::string task = fmt::format("task {}", order.task);
  Check(copy != nullptr && copy->target > copy->source, "hastens what is no page-out: " + task);
  Check(copy == nullptr || !copy->urgent, "hastens what was urgent: " + task);
  Check(!found->second.hastened, "hastens twice: " + task);
  Check(order.target == found->second.target && order.target_frame == found->second.target_frame,
        "hastens another frame: " + task);
  found->second.hastened = true;
}

void FrameModel::Start(const StartMap& map) {
  if (!CheckFrame(map.page, map.tier, map.frame)) return;
  SimFrame& frame = frames_.At(map.tier, map.frame);
  const std::string where = Where(map.page, map.tier, map.frame);
  Check(frame.owner == map.page, "maps a frame of another page: " + where);
  Check(!frame.filling, "maps a frame that is being filled: " + where);
  Check(!frame.mapped && !frame.mapping, "maps twice: " + where);
  frame.mapping = true;
  StartTask(map.task,
            {.action = map, .page = map.page, .target = map.tier, .target_frame = map.frame});
}

void FrameModel::UnderWay(TaskNumber task) {
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) return;  // the task ended before
  SimFrame& frame = frames_.At(found->second.target, found->second.target_frame);
  frame.under_way = true;
  const StartCopy* copy = found->second.copy();
  const bool maps = copy != nullptr ? copy->map : found->second.fill()->map;
  frame.mapped = frame.mapped || maps;
}

void FrameModel::CheckSource(const StartCopy& copy) {
  const SimFrame& source = frames_.At(copy.source, copy.source_frame);
  const ShadowPage& page = shadow_->page(copy.page);
  const std::string where = Where(copy.page, copy.source, copy.source_frame);
  Check(source.owner == copy.page, "copies from a frame of another page: " + where);
  Check(!source.filling, "copies from a frame that is being filled: " + where);
  Check(source.has_content && source.content_page == copy.page && source.stamp == page.stamp,
        "copies what is not the page's content: " + where);
  Check(!page.write_leased(), "I4: copies from a page under a write lease: " + where);
  Check(copy.segment == page.segment, "names another segment: " + where);
  if (frames_.IsLast(copy.source)) {
    Check(source.segment == copy.segment && source.generation == copy.generation,
          fmt::format("reads generation {} where {} was written: {}",
                      copy.generation,
                      source.generation,
                      where));
  }
}

void FrameModel::CheckTarget(PageIndex page, TierIndex tier, FrameIndex index) {
  const SimFrame& frame = frames_.At(tier, index);
  const std::string where = Where(page, tier, index);
  Check(index < frames_.limit(tier), "I1: a frame beyond the budget: " + where);
  Check(!frame.reserved, "takes a reserved frame: " + where);
  Check(frame.owner == kNoPage || frame.owner == page, "takes a frame of another page: " + where);
  Check(!frame.filling, "fills a frame twice at once: " + where);
  Check(frame.readers == 0, "fills a frame that is being read: " + where);
  Check(frame.pins == 0, "I3: fills a pinned frame: " + where);
  if (frames_.IsLast(tier)) {
    Check(!frame.has_content, "overwrites a slot of the last tier in place: " + where);
  }
}

void FrameModel::CheckLinkLoad(const StartCopy& copy) {
  const auto link = std::min(copy.source, copy.target);
  const bool in = copy.target < copy.source;
  Check(std::max(copy.source, copy.target) == link + 1,
        fmt::format("page {} skips a tier: {} to {}", copy.page, copy.source, copy.target));
  std::uint32_t load = 1;
  for (const auto& [number, task] : tasks_) {
    const StartCopy* other = task.copy();
    if (other == nullptr) continue;
    if (std::min(other->source, other->target) != link) continue;
    if ((other->target < other->source) == in) ++load;
  }
  Check(load <= copies_in_flight_max_,
        fmt::format("{} copies in flight on link {} {}", load, link, in ? "in" : "out"));
}

void FrameModel::CheckGeneration(const StartCopy& copy, Stamp stamp) {
  const auto [entry, inserted] = generations_[copy.page].emplace(copy.generation, stamp);
  Check(inserted || entry->second == stamp,
        fmt::format("page {} has two contents of generation {}", copy.page, copy.generation));
}

Stamp FrameModel::FillStamp(const StartFill& fill) {
  const ShadowPage& page = shadow_->page(fill.page);
  switch (fill.kind) {
    case FillKind::kUndefined:
      return kZeros;
    case FillKind::kZero:
      Check(page.stamp == kZeros, fmt::format("fills page {}, which has bytes", fill.page));
      return kZeros;
    case FillKind::kFile:
      Check(page.file == page.stamp, fmt::format("page {} is not what its file has", fill.page));
      return page.file.value_or(kZeros);
    case FillKind::kReproduce:
      Check(page.reproducible, fmt::format("page {} cannot be reproduced", fill.page));
      return page.stamp;
  }
  return kZeros;
}

void FrameModel::StartTask(TaskNumber number, SimTask task) {
  Check(!any_task_ || number > last_task_, fmt::format("task number {} is used twice", number));
  any_task_ = true;
  last_task_ = number;
  if (!std::holds_alternative<StartMap>(task.action)) TakeTarget(task);
  tasks_.emplace(number, std::move(task));
}

void FrameModel::TakeTarget(const SimTask& task) {
  frames_.SetOwner(task.target, task.target_frame, task.page);
  SimFrame& frame = frames_.At(task.target, task.target_frame);
  Check(!frame.mapped || frame.failed_for == kNoPage || frame.failed_for == task.page,
        "another page's mapping stays: " + Where(task.page, task.target, task.target_frame));
  frame.failed_for = kNoPage;
  frame.filling = true;
  frame.has_content = false;
}

bool FrameModel::TakeTask(TaskNumber number, SimTask* task) {
  const auto found = tasks_.find(number);
  if (!Check(found != tasks_.end(), fmt::format("task {} is not in flight", number))) return false;
  *task = std::move(found->second);
  tasks_.erase(found);
  return true;
}

void FrameModel::Done(TaskNumber number) {
  SimTask task;
  if (!TakeTask(number, &task)) return;
  if (std::holds_alternative<StartMap>(task.action)) {
    SimFrame& frame = frames_.At(task.target, task.target_frame);
    frame.mapping = false;
    frame.mapped = true;
    return;
  }
  if (const StartFill* fill = task.fill()) return FinishTarget(task, fill->map);
  const StartCopy& copy = *task.copy();
  SimFrame& source = frames_.At(copy.source, copy.source_frame);
  --source.readers;
  Check(source.owner == copy.page && source.has_content && source.stamp == task.stamp,
        "I4: the source changed during its copy: " +
            Where(copy.page, copy.source, copy.source_frame));
  FinishTarget(task, copy.map);
  SimFrame& target = frames_.At(copy.target, copy.target_frame);
  target.segment = copy.segment;
  target.generation = copy.generation;
}

void FrameModel::FinishTarget(const SimTask& task, bool map) {
  SimFrame& frame = frames_.At(task.target, task.target_frame);
  frame.filling = frame.under_way = frame.granted_under_way = false;
  const auto* copy = task.copy();
  if (copy != nullptr && frames_.IsLast(copy->target)) copies_.NoteFenceOver();
  frame.content_page = task.page;
  if (!std::exchange(frame.written_under_way, false)) {
    frame.has_content = !task.garbage;
    frame.stamp = task.stamp;
  }
  frame.mapped = frame.mapped || map;
}

void FrameModel::Failed(TaskNumber number, FailureKind kind) {
  SimTask task;
  if (!TakeTask(number, &task)) return;
  if (kind == FailureKind::kSourceLost) copies_.NoteDoubt(task.page);
  SimFrame& target = frames_.At(task.target, task.target_frame);
  if (std::holds_alternative<StartMap>(task.action)) {
    target.mapping = false;
    return;
  }
  if (target.written_under_way) copies_.NoteDoubt(task.page);
  const bool stays = target.granted_under_way;
  if (!stays) frames_.SetOwner(task.target, task.target_frame, kNoPage);
  target = {.owner = target.owner,
            .mapped = target.mapped && !target.under_way,
            .failed_for = stays ? kNoPage : task.page,
            .pins = target.pins};
  if (const StartCopy* copy = task.copy()) {
    SimFrame& source = frames_.At(copy->source, copy->source_frame);
    --source.readers;
    if (kind == FailureKind::kSourceLost) source.has_content = false;
  }
}

// --- leaving ----------------------------------------------------------------------------------

void FrameModel::Drop(const DropFrame& drop) {
  if (!CheckFrame(drop.page, drop.tier, drop.frame)) return;
  SimFrame& frame = frames_.At(drop.tier, drop.frame);
  const std::string where = Where(drop.page, drop.tier, drop.frame);
  Check(frame.owner == drop.page || (frame.owner == kNoPage && frame.failed_for == drop.page),
        "drops a frame of another page: " + where);
  Check(!frame.filling && !frame.mapping, "drops a frame that a task works on: " + where);
  Check(frame.readers == 0, "drops a frame that is being read: " + where);
  Check(frame.pins == 0, "I3: drops a pinned frame: " + where);
  Check(frame.mapped == drop.mapped, "drops with a wrong word about the mapping: " + where);
  copies_.NoteDrop(drop.page, {drop.tier, drop.frame});
  frames_.SetOwner(drop.tier, drop.frame, kNoPage);
  frame = {};
}

void FrameModel::Abandon(const std::vector<FrameIndex>& frames,
                         const std::vector<PageIndex>& named) {
  const auto last = static_cast<TierIndex>(frames_.tier_count() - 1);
  for (const FrameIndex index : frames) {
    SimFrame& frame = frames_.At(last, index);
    frame.abandoned = frame.owner != kNoPage;
  }
  copies_.NoteNamed(named);
}

void FrameModel::ForgetPages(PageIndex first_page, std::uint32_t pages) {
  for (PageIndex page = first_page; page < first_page + pages; ++page) {
    Check(frames_.FramesOf(page).empty(),
          fmt::format("page {} is freed while it has frames", page));
    frames_.ForgetPage(page);
    generations_.erase(page);
    copies_.ForgetPage(page);
  }
}

// --- leases -----------------------------------------------------------------------------------

void FrameModel::Pin(const PageRequest& request, FrameIndex index) {
  if (!CheckFrame(request.page, request.tier, index)) return;
  SimFrame& frame = frames_.At(request.tier, index);
  const ShadowPage& page = shadow_->page(request.page);
  const std::string where = Where(request.page, request.tier, index);
  Check(frame.owner == request.page, "grants a frame of another page: " + where);
  Check(!frame.filling || frame.under_way, "grants a frame that is being filled: " + where);
  Check(!request.map || frame.mapped, "grants a frame that is not mapped: " + where);
  if (request.mode != PageMode::kOverwrite) {
    Check(!page.lost, "grants a lost page: " + where);
    const bool there =
        frame.has_content && frame.content_page == request.page && frame.stamp == page.stamp;
    Check(there || frame.under_way, "I2: grants wrong bytes: " + where);
  }
  for (const auto& [number, task] : tasks_) {
    if (task.page != request.page) continue;
    const bool brings = frame.under_way && task.target == request.tier;
    Check(!brings || (!task.garbage && task.stamp == page.stamp), "I2: brings others: " + where);
    Check(request.mode == PageMode::kRead || task.copy() == nullptr || brings,
          "I4: grants a write lease while the page is copied: " + where);
  }
  frame.granted_under_way = frame.granted_under_way || frame.under_way;
  ++frame.pins;
}

void FrameModel::Unpin(PageIndex page, TierIndex tier, FrameIndex index) {
  SimFrame& frame = frames_.At(tier, index);
  if (Check(frame.owner == page && frame.pins > 0, "not pinned: " + Where(page, tier, index))) {
    --frame.pins;
  }
}

void FrameModel::Write(TierIndex tier, FrameIndex index, Stamp stamp) {
  SimFrame& frame = frames_.At(tier, index);
  frame.written_under_way = frame.filling;
  frame.has_content = true;
  frame.content_page = frame.owner;
  frame.stamp = stamp;
}

// --- frames that are not paged, budgets -------------------------------------------------------

void FrameModel::Reserve(TierIndex tier, const std::vector<FrameIndex>& frames) {
  for (const FrameIndex index : frames) {
    if (!Check(index < frames_.limit(tier), "I1: reserves a frame beyond the budget")) continue;
    SimFrame& frame = frames_.At(tier, index);
    Check(frame.owner == kNoPage && !frame.reserved,
          fmt::format("reserves frame {} of tier {}, which is in use", index, tier));
    frames_.Reserve(tier, index);
  }
}

void FrameModel::Unreserve(TierIndex tier, const std::vector<FrameIndex>& frames) {
  for (const FrameIndex index : frames) frames_.Unreserve(tier, index);
}

void FrameModel::CheckVacated(TierIndex tier) {
  for (FrameIndex i = frames_.limit(tier); i < frames_.size(tier); ++i) {
    const SimFrame& frame = frames_.At(tier, i);
    Check(frame.owner == kNoPage && !frame.reserved,
          fmt::format("I1: frame {} of tier {} is in use after the budget was cut", i, tier));
  }
}

}  // namespace sluice::core
