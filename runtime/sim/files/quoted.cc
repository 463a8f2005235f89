#include "runtime/sim/files/quoted.h"

namespace sluice::sim {
namespace {

constexpr std::size_t kShownBytes = 60;

}  // namespace

std::string Printable(std::string_view text) {
  std::string result(text.substr(0, kShownBytes));
  for (char& character : result) {
    if (character < ' ' || character > '~') character = '?';
  }
  if (text.size() > kShownBytes) result += "...";
  return result;
}

std::string Quoted(std::string_view text) { return '"' + Printable(text) + '"'; }

}  // namespace sluice::sim
