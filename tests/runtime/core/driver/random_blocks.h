#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/core/events.h"
#include "tests/runtime/core/driver/random_choices.h"
#include "tests/runtime/core/driver/scenario.h"
#include "tests/runtime/core/driver/virtual_driver.h"

namespace sluice::core {

/// Segments of a random program, and requests of their pages.
class RandomBlocks {
 public:
  RandomBlocks(const Scenario* scenario, RandomChoices* random, VirtualDriver* driver)
      : scenario_(scenario), random_(random), driver_(driver) {}

  /// Creates segments of all the scenario's pages.
  void CreateAll();
  /// Creates one more segment, unless there are many or the core has no room for it.
  void CreateOne();
  /// Frees any segment, unless that one is never freed.
  void FreeOne();
  /// A request of any page; of one that is never freed, if `permanent`. None if the page at which
  /// it aims is not there.
  std::optional<PageRequest> RandomRequest(bool permanent);

 private:
  struct Block {
    PageIndex first_page = 0;
    std::uint32_t pages = 0;
    TierIndex lowest = 0;
    bool permanent = false;
    bool read_only = false;
  };

  void Create(std::uint32_t pages, TierIndex lowest, bool permanent);
  PageIndex FindRoom(std::uint32_t pages) const;
  TierIndex last_tier() const {
    return static_cast<TierIndex>(scenario_->driver.frames.size() - 1);
  }

  const Scenario* scenario_;
  RandomChoices* random_;
  VirtualDriver* driver_;
  std::vector<Block> blocks_;
  SegmentIndex next_segment_ = 1;
};

}  // namespace sluice::core
