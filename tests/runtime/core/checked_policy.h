#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"
#include "runtime/core/policies/paging_policy.h"

namespace sluice::core {

/// Another policy, behind checks that the core keeps to policy.h, and the policy too.
class CheckedPolicy : public PagingPolicy {
 public:
  /// `log`, if not null, gets a line for everything told. It must outlive this object.
  CheckedPolicy(std::shared_ptr<PagingPolicy> inner, std::vector<std::string>* log)
      : inner_(std::move(inner)), log_(log) {}

  std::string_view name() const override { return inner_->name(); }
  bool online() const override { return inner_->online(); }
  bool planned() const override { return inner_->planned(); }

  void OnFrames(int tier, std::uint64_t frames) override {
    Log("frames {} {}", tier, frames);
    inner_->OnFrames(tier, frames);
  }
  void OnStep(Position now) override {
    SLUICE_CHECK(now >= now_, "positions grow");
    now_ = now;
    inner_->OnStep(now);
  }
  void OnInsert(int tier, const PageFacts& facts) override {
    Log("insert {}:{}{}", tier, facts.page, Describe(facts));
    SLUICE_CHECK(inserted_.insert({tier, facts.page}).second, "a page is inserted once");
    known_.insert({tier, facts.page});
    CheckFacts(facts);
    inner_->OnInsert(tier, facts);
  }
  void OnChange(int tier, const PageFacts& facts) override {
    Log("change {}:{}{}", tier, facts.page, Describe(facts));
    SLUICE_CHECK(inserted_.contains({tier, facts.page}), "only inserted pages change");
    CheckFacts(facts);
    inner_->OnChange(tier, facts);
  }
  void OnRemove(int tier, PageIndex page) override {
    Log("remove {}:{}", tier, page);
    SLUICE_CHECK(inserted_.erase({tier, page}) == 1, "only inserted pages are removed");
    inner_->OnRemove(tier, page);
  }
  void OnAccess(int tier, PageIndex page) override {
    Log("access {}:{}", tier, page);
    known_.insert({tier, page});
    inner_->OnAccess(tier, page);
  }
  void OnLeave(int tier, PageIndex page, Departure why) override {
    constexpr const char* kWords[] = {"victim", "other", "freed"};
    Log("leave {}:{} {}", tier, page, kWords[static_cast<int>(why)]);
    SLUICE_CHECK(!inserted_.contains({tier, page}), "a page is removed before it leaves");
    const bool known = known_.erase({tier, page}) == 1;
    SLUICE_CHECK(known || why == Departure::kFreed, "only pages that are there leave");
    inner_->OnLeave(tier, page, why);
  }
  void OnWant(int tier, std::optional<PageIndex> page) override { inner_->OnWant(tier, page); }
  std::optional<PageIndex> Victim(int tier,
                                  const std::function<bool(PageIndex)>& evictable) override {
    const std::optional<PageIndex> victim = inner_->Victim(tier, evictable);
    if (victim.has_value()) {
      SLUICE_CHECK(inserted_.contains({tier, *victim}), "a victim is an inserted page");
      SLUICE_CHECK(evictable(*victim), "a victim is one that may leave");
      return victim;
    }
    for (auto it = inserted_.lower_bound({tier, 0}); it != inserted_.end(); ++it) {
      SLUICE_CHECK(it->first != tier || !evictable(it->second), "who may leave is found");
    }
    return victim;
  }
  std::optional<PageIndex> VictimAmong(int tier, std::span<const PageIndex> pages) override {
    SLUICE_CHECK(!pages.empty() && std::is_sorted(pages.begin(), pages.end()), "in order");
    const std::optional<PageIndex> victim = inner_->VictimAmong(tier, pages);
    SLUICE_CHECK(victim == PagingPolicy::VictimAmong(tier, pages), "as Victim would choose");
    return victim;
  }
  /// The answer must be that of Victim. So `evictable` accepts only pages that the policy knows to
  /// be free to leave.
  std::optional<PageIndex> VictimToDrop(int tier,
                                        const std::function<bool(PageIndex)>& evictable) override {
    SLUICE_CHECK(!online(), "an online policy is not asked for pages to drop");
    const std::optional<PageIndex> victim = inner_->VictimToDrop(tier, evictable);
    SLUICE_CHECK(victim == Victim(tier, evictable), "as Victim would choose");
    return victim;
  }
  /// The answer must be that of Victim. So `evictable` accepts only pages that the policy knows to
  /// be dirty.
  std::optional<PageIndex> VictimToWrite(int tier,
                                         Position use_min,
                                         const std::function<bool(PageIndex)>& evictable) override {
    const std::optional<PageIndex> victim = inner_->VictimToWrite(tier, use_min, evictable);
    SLUICE_CHECK(victim == Victim(tier, evictable), "as Victim would choose");
    return victim;
  }

 private:
  template <typename... Args>
  void Log(fmt::format_string<Args...> format, Args&&... args) {
    if (log_ != nullptr) log_->push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  static std::string Describe(const PageFacts& facts) {
    return fmt::format("{}{}{}",
                       facts.next_use == kNever ? "" : fmt::format(" use {}", facts.next_use),
                       facts.free_to_leave ? " free" : "",
                       facts.free_to_return ? " returns" : "");
  }
  void CheckFacts(const PageFacts& facts) const {
    SLUICE_CHECK(!online() || facts.next_use == kNever, "an online policy knows no next use");
  }

  std::shared_ptr<PagingPolicy> inner_;
  std::vector<std::string>* log_;
  std::set<std::pair<int, PageIndex>> inserted_;
  std::set<std::pair<int, PageIndex>> known_;
  Position now_ = 0;
};

}  // namespace sluice::core
