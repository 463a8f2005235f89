#pragma once

#include <string>

namespace sluice::optim {

/// Where two layouts (OffloadedOptimizer::Impl::Layout) differ first, in words; empty where they do
/// not.
std::string LayoutDifference(const std::string& saved, const std::string& here);

}  // namespace sluice::optim
