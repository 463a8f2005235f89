#pragma once

#include <string>

namespace sluice::optim {

/// First difference of two layouts (OptimizerSaves::Layout), in words; empty if they have
/// none.
std::string LayoutDifference(const std::string& saved, const std::string& here);

}  // namespace sluice::optim
