// The index of a checkpoint, of any bytes, is read or refused with a message; no file that it names
// lies in another directory.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "io/safetensors/weight_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto files = sluice::io::ParseWeightIndex(json);
  SLUICE_CHECK(files.ok() || !files.status().message().empty(), "errors say something");
  if (!files.ok()) return 0;
  for (const auto& [tensor, file] : *files) {
    SLUICE_CHECK(!file.empty() && file != "." && file != "..", "a file has a name");
    SLUICE_CHECK(file.find('/') == std::string::npos, "no file is elsewhere");
  }
  return 0;
}
