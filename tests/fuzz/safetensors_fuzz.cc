// A safetensors header of any bytes is read or refused with a message. The tensors of a header that
// is read cover every byte of the file once.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "io/safetensors/safetensors_header.h"

namespace {

using sluice::io::SafetensorsHeader;

void CheckHeader(const SafetensorsHeader& header, std::uint64_t data_bytes) {
  std::uint64_t next = 0;
  for (const auto& tensor : header.tensors) {
    SLUICE_CHECK(tensor.offset == next && tensor.bytes <= data_bytes - next, "one after another");
    std::uint64_t bits = tensor.type->bits;
    for (const std::int64_t extent : tensor.shape) {
      SLUICE_CHECK(extent >= 0, "extents are not negative");
      bits *= static_cast<std::uint64_t>(extent);
    }
    SLUICE_CHECK(tensor.bytes * 8 == bits, "shape and bytes agree");
    next += tensor.bytes;
  }
  SLUICE_CHECK(next == data_bytes, "nothing is left over");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // The first byte says how many bytes follow the header.
  const std::uint64_t data_bytes = data[0];
  const std::string_view json(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto header = sluice::io::ParseSafetensorsHeader(json, data_bytes);
  SLUICE_CHECK(header.ok() || !header.status().message().empty(), "errors say something");
  if (header.ok()) CheckHeader(*header, data_bytes);
  return 0;
}
