#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice::base {

/// A name that other programs of this field use, and our name for the same thing.
struct CommonName {
  std::string_view theirs;  ///< lower case, with underscores, without a section: "max_grad_norm"
  std::string_view ours;    ///< key or flag: "train.clip_norm", "--save"
};
std::span<const CommonName> CommonNames();

/// Our name for `name` among the candidates; empty if the list has none. A section ("train.lr"),
/// dashes ("--max-grad-norm") and capitals of `name` do not count.
std::string OurName(std::string_view name, std::span<const std::string> candidates);

/// Our key of a configuration for `name`; empty if the list has none. Dashes and capitals do not
/// count.
std::string_view OurKey(std::string_view name);

}  // namespace sluice::base
