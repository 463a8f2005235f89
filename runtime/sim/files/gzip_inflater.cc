#include "runtime/sim/files/gzip_inflater.h"

#include <zlib.h>

#include <array>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"

namespace sluice::sim {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
/// The largest window, and a gzip header.
constexpr int kWindowBits = 15 + 16;

}  // namespace

struct GzipInflater::Stream {
  z_stream z{};
  bool ready = false;
  std::array<char, kPieceBytes> piece;
};

GzipInflater::GzipInflater(std::string file, TextSink sink)
    : file_(std::move(file)), sink_(std::move(sink)), stream_(std::make_unique<Stream>()) {
  stream_->ready = inflateInit2(&stream_->z, kWindowBits) == Z_OK;
}

GzipInflater::~GzipInflater() {
  if (stream_->ready) inflateEnd(&stream_->z);
}

absl::Status GzipInflater::Append(std::string_view bytes) {
  if (!stream_->ready) return absl::ResourceExhaustedError("no memory to decompress with");
  while (!bytes.empty()) SLUICE_RETURN_IF_ERROR(Step(&bytes));
  return absl::OkStatus();
}

/// One call of zlib: takes some of `bytes` or gives a piece of text, or both.
absl::Status GzipInflater::Step(std::string_view* bytes) {
  z_stream& z = stream_->z;
  if (std::exchange(between_members_, false)) inflateReset(&z);
  const std::string_view input = bytes->substr(0, kPieceBytes);
  // zlib does not write to its input, whose pointer older interfaces declare without const.
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
  z.avail_in = static_cast<uInt>(input.size());
  int result = Z_OK;
  do {
    z.next_out = reinterpret_cast<Bytef*>(stream_->piece.data());
    z.avail_out = kPieceBytes;
    result = inflate(&z, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) break;
    SLUICE_RETURN_IF_ERROR(sink_({stream_->piece.data(), kPieceBytes - z.avail_out}));
  } while (result == Z_OK && z.avail_out == 0);
  const std::size_t taken = input.size() - z.avail_in;
  consumed_ += taken;
  if (result == Z_MEM_ERROR) return absl::ResourceExhaustedError("no memory to decompress with");
  if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
    return Damaged();
  }
  between_members_ = result == Z_STREAM_END;
  SLUICE_CHECK(taken > 0, "zlib takes input until it finds an end or an error");
  bytes->remove_prefix(taken);
  return absl::OkStatus();
}

absl::Status GzipInflater::Damaged() const {
  const char* const reason = stream_->z.msg;
  return absl::InvalidArgumentError(
      fmt::format("{}: the gzip data is damaged at byte {} ({}); make or fetch the file again",
                  file_,
                  consumed_,
                  reason == nullptr ? "no gzip" : reason));
}

absl::Status GzipInflater::Finish() const {
  if (between_members_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: the gzip data ends too early, at byte {}; make or fetch the file again",
                  file_,
                  consumed_));
}

}  // namespace sluice::sim
