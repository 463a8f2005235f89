#include "tools/support/page_flag.h"

#include <bit>
#include <string>

#include "base/status.h"
#include "fmt/format.h"
#include "sluice/units.h"

namespace sluice::tools {
namespace {

absl::StatusOr<std::uint64_t> ParsePage(const std::string& text) {
  SLUICE_ASSIGN_OR_RETURN(const Bytes page, ParseBytes(text));
  if (!std::has_single_bit(page.count()) || page < 4_KiB || page > 64_MiB) {
    return absl::InvalidArgumentError(
        fmt::format("{} is no page size; give a power of two from 4KiB to 64MiB", ToString(page)));
  }
  return page.count();
}

}  // namespace

absl::StatusOr<std::uint64_t> ReadPageFlag(const Arguments& arguments, std::uint64_t otherwise) {
  if (!arguments.Has("--page")) return otherwise;
  const auto page = ParsePage(arguments.Value("--page"));
  return page.ok() ? page : base::Annotate(page.status(), "--page");
}

}  // namespace sluice::tools
