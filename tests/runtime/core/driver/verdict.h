#pragma once

#include <string>
#include <utility>

namespace sluice::core {

/// The first thing found wrong in a run; whatever is found after it is a consequence.
class Verdict {
 public:
  void Fail(std::string text) {
    if (text_.empty()) text_ = std::move(text);
  }
  /// Returns the condition. It fails the run if it does not hold.
  bool Check(bool condition, std::string text) {
    if (!condition) Fail(std::move(text));
    return condition;
  }
  bool ok() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace sluice::core
