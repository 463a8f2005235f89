#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/file/file_scan.h"
#include "io/safetensors/header_events.h"
#include "nlohmann/json.hpp"
#include "sluice/units.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/word_command.h"
#include "tools/weights/weight_contents.h"
#include "tools/weights/weight_sums.h"
#include "tools/weights/weights.h"

namespace sluice::tools {
namespace {

using LsJson = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kReadTime{500};
/// Bytes below which a rate tells nothing.
constexpr std::uint64_t kRateBytesMin = std::uint64_t{64} << 20;

const std::vector<FlagSpec>& LsFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"PATH", FlagShape::kWord, "", "a safetensors file, an index, or a directory with one"},
      {"--json", FlagShape::kSwitch, "", "one JSON object"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

constexpr const char* kLsAbout =
    "Tells what a checkpoint holds, by type and by layer, and how long this disk reads it: half a\n"
    "second of it is read past the page cache. Nothing is written.\n";

/// Rate of the disk while the files were read for a moment.
struct ReadRate {
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::string engine;
  std::string buffered;  ///< reason for measuring the page cache; empty when it was not measured

  bool is_known() const { return bytes >= kRateBytesMin; }
  double bytes_per_second() const { return static_cast<double>(bytes) / seconds; }
};

absl::StatusOr<ReadRate> MeasureReadRate(const io::WeightFiles& weights) {
  SLUICE_ASSIGN_OR_RETURN(const auto scanner, io::FileScanner::Create({}));
  ReadRate rate{.engine = scanner->engine()};
  const Clock::time_point begin = Clock::now();
  for (const auto& file : weights.files()) {
    if (Clock::now() - begin >= kReadTime) break;
    SLUICE_RETURN_IF_ERROR(scanner->Scan(
        file->path(), file->file_bytes(), [&](std::uint64_t, std::span<const std::byte> bytes) {
          rate.bytes += bytes.size();
          return Clock::now() - begin < kReadTime;
        }));
    rate.buffered = scanner->direct_reason();
  }
  rate.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return rate;
}

std::string LayersText(const WeightLayers& layers) {
  const std::string each =
      layers.bytes_min == layers.bytes_max
          ? ToString(Bytes(layers.bytes_min))
          : fmt::format(
                "{} to {}", ToString(Bytes(layers.bytes_min)), ToString(Bytes(layers.bytes_max)));
  const std::string count =
      layers.layers == 1 ? std::string() : fmt::format("  {} layers of {}", layers.layers, each);
  return fmt::format("  {:<32} {:>12}{}\n", layers.name, ToString(Bytes(layers.all.bytes)), count);
}

std::string PassText(const io::WeightFiles& weights, const ReadRate& rate) {
  if (!rate.is_known()) return "a pass           too few bytes to measure the disk\n";
  const double seconds = static_cast<double>(weights.file_bytes()) / rate.bytes_per_second();
  return fmt::format(
      "a pass           {:.1f} s at {:.2f} GB/s ({}, {})\n",
      seconds,
      rate.bytes_per_second() / 1e9,
      rate.engine,
      rate.buffered.empty() ? "O_DIRECT" : "through the page cache: " + rate.buffered);
}

std::string ListText(const io::WeightFiles& weights,
                     const WeightContents& contents,
                     const ReadRate& rate) {
  std::string text = fmt::format("{}\n{} of {} in {}\n",
                                 weights.path(),
                                 base::Counted(contents.all.tensors, "tensor"),
                                 ToString(Bytes(contents.all.bytes)),
                                 base::Counted(weights.files().size(), "file"));
  for (const auto& [type, count] : contents.types) {
    text += fmt::format("  {:<32} {:>12}  {}\n",
                        type,
                        ToString(Bytes(count.bytes)),
                        base::Counted(count.tensors, "tensor"));
  }
  text += "layers\n";
  for (const WeightLayers& layers : contents.layers) text += LayersText(layers);
  if (!weights.unnamed().empty()) {
    text += fmt::format("not in the index {}, as {}\n",
                        base::Counted(weights.unnamed().size(), "tensor"),
                        io::ShownName(weights.unnamed().front()));
  }
  const bool has_sums = std::filesystem::exists(io::SumsPathOf(weights));
  text += fmt::format("checksums        {}\n",
                      has_sums ? io::SumsPathOf(weights) : "none; `sluice weights sum` makes some");
  return text + PassText(weights, rate);
}

std::string ListJson(const io::WeightFiles& weights,
                     const WeightContents& contents,
                     const ReadRate& rate) {
  LsJson json = {{"path", weights.path()},
                 {"files", weights.files().size()},
                 {"tensors", contents.all.tensors},
                 {"bytes", contents.all.bytes},
                 {"file_bytes", weights.file_bytes()},
                 {"types", LsJson::object()},
                 {"layers", LsJson::array()},
                 {"not_in_index", weights.unnamed()},
                 {"sums", std::filesystem::exists(io::SumsPathOf(weights))}};
  for (const auto& [type, count] : contents.types) {
    json["types"][type] = {{"tensors", count.tensors}, {"bytes", count.bytes}};
  }
  for (const WeightLayers& each : contents.layers) {
    json["layers"].push_back({{"name", each.name},
                              {"layers", each.layers},
                              {"tensors", each.all.tensors},
                              {"bytes", each.all.bytes},
                              {"layer_bytes_min", each.bytes_min},
                              {"layer_bytes_max", each.bytes_max}});
  }
  json["read_bytes_per_second"] = rate.is_known() ? LsJson(rate.bytes_per_second()) : LsJson();
  json["engine"] = rate.engine;
  json["direct"] = rate.buffered.empty();
  return json.dump(-1, ' ', false, LsJson::error_handler_t::replace) + "\n";
}

absl::Status List(const Arguments& arguments) {
  SLUICE_ASSIGN_OR_RETURN(const auto weights, io::WeightFiles::Open(arguments.Value("PATH")));
  const WeightContents contents = ContentsOf(*weights);
  SLUICE_ASSIGN_OR_RETURN(const ReadRate rate, MeasureReadRate(*weights));
  const bool is_json = arguments.Has("--json");
  Console console(is_json ? Console::Mode::kJson : Console::Mode::kText);
  if (is_json) {
    console.PrintJson(ListJson(*weights, contents, rate));
  } else {
    console.Print(ListText(*weights, contents, rate));
  }
  return console.status();
}

}  // namespace

int RunWeightsLs(std::span<const std::string> words) {
  return RunWordCommand(
      {.usage = "sluice weights ls PATH [--json]", .about = kLsAbout, .flags = LsFlagSpecs()},
      words,
      List);
}

}  // namespace sluice::tools
