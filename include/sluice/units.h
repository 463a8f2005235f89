#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

/// Numbers of bytes that cannot be taken for anything else:
///
///   using namespace sluice::literals;
///   const sluice::Bytes budget = 2_GiB + 512_MiB;
///   const auto parsed = sluice::ParseBytes("1.5 GiB");
///   const std::uint64_t count = budget.count();
///   Print(sluice::ToString(budget));               // "2.5 GiB"

namespace sluice {

/// A number of bytes. Explicit, so that a count of pages or elements cannot be taken for it.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::uint64_t count) : count_(count) {}

  constexpr std::uint64_t count() const { return count_; }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.count_ + b.count_); }
  /// REQUIRES: a >= b.
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.count_ - b.count_); }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t n) { return Bytes(a.count_ * n); }
  constexpr Bytes& operator+=(Bytes other) { return *this = *this + other; }

 private:
  std::uint64_t count_ = 0;
};

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return Bytes(n); }
constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes(n << 10); }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes(n << 20); }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes(n << 30); }
}  // namespace literals

/// "256 KiB", "1.5 GiB": binary units, at most two decimals.
std::string ToString(Bytes bytes);

/// Parses "256KiB", "1.5 GiB", "4096": a non-negative number with an optional B, KiB, MiB, GiB or
/// TiB. Errors: InvalidArgument that quotes the text.
absl::StatusOr<Bytes> ParseBytes(std::string_view text);

/// A part of a tensor, in bytes from its first.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  friend constexpr bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// The whole tensor, whatever its size.
inline constexpr ByteRange kWholeTensor{0, UINT64_MAX};

}  // namespace sluice
