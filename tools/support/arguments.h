#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::tools {

enum class FlagShape {
  kSwitch,    ///< --json
  kValue,     ///< --config FILE, at most once
  kRepeated,  ///< --set KEY=VALUE, as often as wanted
  kList,      ///< --text FILE ..., every word up to the next flag
  kWord,      ///< SCHEDULE, a word without a flag; several are filled in their order
};

struct FlagSpec {
  std::string name;  ///< flag with its dashes: "--json"; a kWord without: "SCHEDULE"
  FlagShape shape = FlagShape::kSwitch;
  std::string value_name;  ///< name that help shows: "FILE"
  std::string help;        ///< text of help, one line
};

/// The flags of one sub-command, read from its words. "--flag=value" means "--flag value". Every
/// word belongs to a flag, or is one of the kWord ones.
class Arguments {
 public:
  /// Parses the words. Errors: InvalidArgument for an unknown flag (names the nearest), a stray
  /// word, a missing value, a kValue flag given twice.
  static absl::StatusOr<Arguments> Parse(std::span<const std::string> words,
                                         std::span<const FlagSpec> specs);

  bool Has(const std::string& name) const { return values_.contains(name); }
  /// The value of a kValue flag or a kWord, or `otherwise`.
  std::string Value(const std::string& name, std::string otherwise = "") const;
  /// All values of a kRepeated or kList flag, in order.
  std::vector<std::string> Values(const std::string& name) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

/// Whether a word is -h or --help, which a sub-command answers before it reads the others.
bool AsksForHelp(std::span<const std::string> words);

/// The "Flags:" part of a help text, one line per flag.
std::string DescribeFlags(std::span<const FlagSpec> specs);

}  // namespace sluice::tools
