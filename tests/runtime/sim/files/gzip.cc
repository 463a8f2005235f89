#include "tests/runtime/sim/files/gzip.h"

#include <zlib.h>

#include "base/check.h"

namespace sluice::sim {

std::string Gzip(std::string_view text) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  const int ready =
      deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY);
  SLUICE_CHECK(ready == Z_OK, "zlib has memory");
  std::string result(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  SLUICE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "the bound is enough");
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

}  // namespace sluice::sim
