#pragma once

#include <string>
#include <string_view>

namespace sluice::sim {

/// `text` as one member of a gzip file.
std::string Gzip(std::string_view text);

}  // namespace sluice::sim
