#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice::io {

/// How much longer than it used to a drive takes for its reads. A read is held against earlier ones
/// that found as many operations ahead of them: how long it waits for others says nothing.
/// Threads: externally synchronised.
class DriveSlowness {
 public:
  /// Factors from which on a drive is slow, and below which it is as it was.
  static constexpr double kSlow = 3;
  static constexpr double kWell = 1.5;

  /// `window`: reads that it looks at together, from 1 to 4096.
  explicit DriveSlowness(std::size_t window);

  /// A read that ended well. True when that ends a window, which factor() is of then.
  bool NoteRead(std::uint32_t ahead, double seconds);
  /// The median over the window of time by what it was; 1 until that is known.
  double factor() const { return factor_; }

 private:
  /// What reads take: the median, of a window of them at first.
  class Median {
   public:
    bool known() const { return first_.empty() && reads_ > 0; }
    double seconds() const { return seconds_; }
    void Add(double seconds, std::size_t window);

   private:
    double seconds_ = 0;
    std::size_t reads_ = 0;  ///< as far as that matters
    std::vector<double> first_;
  };
  struct Sample {
    std::size_t level = 0;
    double seconds = 0;
  };

  std::optional<double> UsualOf(std::size_t level) const;
  void EndWindow();

  const std::size_t window_;
  /// While the drive is well, by how many operations there are with the read: 1, 2, 3, 4 to 5, 6 to
  /// 7, 8 to 11, 12 to 15 ... So no level spans 1.5 times as many.
  std::array<Median, 22> usual_;
  std::vector<Sample> samples_;  ///< of the window
  std::vector<double> factors_;  ///< theirs
  double factor_ = 1;
};

}  // namespace sluice::io
