#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/core/types.h"
#include "runtime/sim/simulator/machine.h"
#include "runtime/sim/simulator/path_model.h"

namespace sluice::sim {

/// A page that is to be moved over a link.
struct SimOrder {
  core::LinkDirection direction = core::LinkDirection::kIn;
  core::TaskNumber task = 0;
  std::uint64_t bytes = 0;
  /// Whether the page is read from the file that is its home.
  bool from_file = false;
  /// Place below the link: the page, if it comes from a file, otherwise the frame.
  std::uint32_t place = 0;
};

/// A link in virtual time. Each page takes the path over which it would be complete first, the
/// first of several; so paths share in proportion to their speed. If each path leads to a drive of
/// its own, a page comes back over the path by which it went.
class LinkModel {
 public:
  /// `drives`: whether each path leads to a drive of its own.
  LinkModel(const MachineLink& link, bool drives);

  /// Places pages in a file from the start, on drives in proportion to their read rates.
  void PlaceInFile(PageIndex first, std::uint32_t pages);
  /// Starts a transfer. REQUIRES: `now` is no earlier than in any call before.
  void Start(const SimOrder& order, double now);
  /// Time at which the next transfer leaves; PathModel::kNever when there is none.
  double next() const { return paths_[NextPath()].next(); }
  /// Takes the transfer that leaves at next(). REQUIRES: there is one.
  PathModel::Finished Finish();
  /// Passes the time. REQUIRES: `now` is no earlier than in any call before, and not after next().
  void PassTime(double now);

  const std::vector<PathModel>& paths() const { return paths_; }

 private:
  std::size_t NextPath() const;
  std::size_t Choose(const SimOrder& order) const;
  std::size_t FirstToComplete(const SimOrder& order) const;

  std::vector<PathModel> paths_;
  const bool drives_;
  std::vector<double> read_rates_;
  std::vector<std::uint64_t> pages_placed_;  ///< pages in files, per path
  std::vector<std::uint8_t> path_of_frame_;
  std::vector<std::uint8_t> path_of_page_;  ///< path of each page that lies in a file
};

}  // namespace sluice::sim
