// The text of an optimizer's save, of any bytes, is read or refused with a message. If it is read,
// writing gives the same text, its records follow one another, and layouts can be compared.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "runtime/optim/optimizer/layout.h"
#include "runtime/optim/optimizer/rates.h"
#include "runtime/optim/save/save_layout.h"
#include "runtime/optim/save/save_text.h"
#include "runtime/optim/save/saved_tensors.h"

namespace {

using sluice::optim::LayoutDifference;
using sluice::optim::SaveText;

/// Layout of the first seed.
constexpr char kHere[] =
    R"({"groups":[{"name":"g0","parameters":[{"count":20,"name":"p0","type":"f32"}]}],)"
    R"("optimizer":"adamw","seed":0,"state":"8bit"})";

void CheckLayout(const std::string& layout) {
  const auto parsed = sluice::optim::ParseLayout(layout);
  SLUICE_CHECK(parsed.ok() || !parsed.status().message().empty(), "errors say something");
  SLUICE_CHECK(!parsed.ok() || sluice::optim::WriteLayout(*parsed) == layout, "it comes back");
  SLUICE_CHECK(LayoutDifference(layout, layout).empty(), "a layout is its own");
  const bool same = LayoutDifference(layout, kHere).empty();
  SLUICE_CHECK(LayoutDifference(kHere, layout).empty() == same, "both ways");
  const auto tensors = sluice::optim::TensorsOfLayout(layout);
  SLUICE_CHECK(tensors.ok() || !tensors.status().message().empty(), "errors say something");
}

/// Checks the places of records whose sizes the hashes decide.
void CheckRecords(const std::vector<std::uint64_t>& hashes, std::uint64_t end) {
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t hash : hashes) sizes.push_back(hash % 4 == 0 ? hash : hash % 64);
  const auto records = sluice::optim::PlaceRecords(hashes, sizes, end);
  SLUICE_CHECK(records.ok() || !records.status().message().empty(), "errors say something");
  if (!records.ok()) return;
  std::uint64_t next = records->empty() ? end : records->front().offset;
  for (const auto& record : *records) {
    SLUICE_CHECK(record.offset == next && record.bytes <= end - next, "one after another");
    next += record.bytes;
  }
  SLUICE_CHECK(next == end, "the last one ends where the text begins");
}

void CheckSave(const SaveText& save) {
  SLUICE_CHECK(save.step >= 0, "steps are counted from 0");
  for (const auto& rates : save.rates) {
    SLUICE_CHECK(sluice::optim::CheckRates("", rates).ok(), "a group may have what is read");
  }
  if (save.steps) {
    // A parameter may have brought steps from elsewhere, more than the optimizer has made.
    for (const std::int64_t step : *save.steps) {
      SLUICE_CHECK(step >= 0, "steps are counted from 0");
    }
  }
  const std::string written = sluice::optim::WriteSaveText(save);
  const auto again = sluice::optim::ParseSaveText(written);
  SLUICE_CHECK(again.ok(), "what is written can be read");
  SLUICE_CHECK(sluice::optim::WriteSaveText(*again) == written, "and is the same");
  CheckRecords(save.hashes, static_cast<std::uint64_t>(save.step));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckLayout(std::string(text));
  const auto save = sluice::optim::ParseSaveText(text);
  SLUICE_CHECK(save.ok() || !save.status().message().empty(), "errors say something");
  if (!save.ok()) return 0;
  CheckSave(*save);
  CheckLayout(save->layout);
  return 0;
}
