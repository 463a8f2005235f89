#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/units.h"

/// A configuration file with overrides, read key by key:
///
///   auto config = sluice::Config::Load("train.toml");
///   if (!config.ok()) return config.status();
///   absl::Status status = config->Set("tiers.dram.bytes=256MiB");  // wins over the file
///   std::int64_t steps = 100;                                      // the default
///   if (status.ok()) status = config->Read("train.steps", &steps);
///   auto options = sluice::ReadRuntimeOptions(*config);            // sluice/options.h
///   if (!options.ok()) return options.status();
///   if (status.ok()) status = config->Finish();                    // unknown keys are errors
///   if (!status.ok()) return status;

namespace sluice {

/// A TOML file plus overrides, read key by key; every key that nobody asked for is an error.
/// Keys are dotted ("tiers.dram.bytes"). Sizes are written as strings ("256MiB") or byte counts.
/// Threads: externally synchronised.
class Config {
 public:
  /// Largest TOML text; more is InvalidArgument.
  static constexpr Bytes kBytesMax{std::uint64_t{1} << 20};

  /// Reads a file (Load), or a text that messages call `source_name` (Parse). Errors:
  /// - InvalidArgument: malformed TOML, with line and column; more than kBytesMax.
  /// - Load alone: InvalidArgument (no regular file or pipe), NotFound, PermissionDenied, and
  ///   others of open(2).
  static absl::StatusOr<Config> Load(const std::string& path);
  static absl::StatusOr<Config> Parse(std::string_view toml, const std::string& source_name);

  Config(Config&&) noexcept;
  Config& operator=(Config&&) noexcept;
  ~Config();

  /// Applies "key=value" (a TOML value, or a bare word taken as a string). Finish decides if the
  /// key is known. Errors: InvalidArgument (no "=", an empty part of the key, a section in place of
  /// a value or the other way round).
  absl::Status Set(std::string_view assignment);

  /// Reads one key into `*value` and marks the key as known. An absent key leaves the default in
  /// `*value`. Errors: InvalidArgument that names the key and the expected type.
  absl::Status Read(std::string_view key, bool* value);
  absl::Status Read(std::string_view key, std::int64_t* value);
  absl::Status Read(std::string_view key, double* value);
  absl::Status Read(std::string_view key, std::string* value);
  absl::Status Read(std::string_view key, Bytes* value);
  absl::Status Read(std::string_view key, std::vector<std::int64_t>* value);
  absl::Status Read(std::string_view key, std::vector<std::string>* value);

  /// Whether the key has a value. A key that is absent, or a section, has none.
  bool Has(std::string_view key) const;

  /// The keys that were read, in the order of reading, each with its value as a line of TOML:
  /// `tiers.dram.bytes = "256MiB"`. Keys without a value in file and overrides have the default.
  std::string Values() const;

  /// Errors: InvalidArgument for the first key in the file or overrides that was never read, with
  /// the nearest known key, if any is near.
  absl::Status Finish() const;

 private:
  struct State;
  explicit Config(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sluice
