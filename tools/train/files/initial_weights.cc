#include "tools/train/files/initial_weights.h"

#include <bit>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "io/safetensors/header_events.h"
#include "nlohmann/json.hpp"
#include "workloads/gpt/model/parameters.h"

namespace sluice::tools {
namespace {

template <typename... Args>
absl::Status BadWeights(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Args>(args)...));
}

bool IsReadable(std::optional<DType> type) {
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
}

/// ", and N more"
std::string AndMore(std::size_t count) {
  return count > 1 ? fmt::format(", and {} more", count - 1) : std::string();
}

/// A fact of the file about its model; none if the file lacks it. --save writes it under keys of
/// its own. An exported state has it in the note of its run, as "model.heads".
std::optional<std::string> FactOf(const io::SafetensorsHeader& header, const std::string& key) {
  if (const auto own = header.metadata.find(key); own != header.metadata.end()) return own->second;
  const auto note = header.metadata.find("sluice.note");
  if (note == header.metadata.end()) return std::nullopt;
  const auto run = nlohmann::json::parse(note->second, nullptr, false);
  const auto fact = run.is_object() ? run.find("model." + key) : run.end();
  return fact != run.end() && fact->is_string() ? std::optional(fact->get<std::string>())
                                                : std::nullopt;
}

/// Whether a tensor of a state that was exported is none of a parameter itself: of moments, which
/// a new training begins without.
bool IsOfMoments(const io::SafetensorsHeader& header,
                 const std::string& name,
                 const std::set<std::string>& parameters) {
  if (!header.metadata.contains("sluice.states")) return false;
  if (name.starts_with("sluice.code.")) return true;
  for (const std::string_view suffix : {".m", ".v", ".m.scale", ".v.scale"}) {
    if (name.ends_with(suffix) &&
        parameters.contains(name.substr(0, name.size() - suffix.size()))) {
      return true;
    }
  }
  return false;
}

/// The assignments that make the model the one that --save described in the file; empty where they
/// are the same, or the file says nothing.
std::string ModelOf(const io::SafetensorsHeader& header, const gpt::ModelConfig& model) {
  const std::pair<const char*, int> facts[] = {{"layers", model.layers},
                                               {"heads", model.heads},
                                               {"width", model.width},
                                               {"context", model.context}};
  std::string assignments;
  for (const auto& [key, here] : facts) {
    const std::optional<std::string> there = FactOf(header, key);
    if (!there || *there == std::to_string(here)) continue;
    assignments += fmt::format(" --set model.{}={}", key, there->substr(0, 20));
  }
  return assignments;
}

/// "; its model is that of --set model.width=64"
std::string ModelHint(const std::string& assignments) {
  if (assignments.empty())
    return "; name a file that `sluice train --save` or `sluice state export` wrote of this model";
  return "; its model is that of" + assignments;
}

}  // namespace

float FloatOfBf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float FloatOfF16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  // Infinities and NaNs keep an exponent of ones; others differ by a factor of 2^112, denormals
  // too.
  if (magnitude >= 0x0f800000U) return std::bit_cast<float>(sign | magnitude | 0x7f800000U);
  return std::bit_cast<float>(
      sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F));
}

absl::StatusOr<InitialWeights> InitialWeights::Open(const std::string& path,
                                                    const gpt::ModelConfig& model) {
  SLUICE_ASSIGN_OR_RETURN(auto file, io::SafetensorsReader::Open(path));
  InitialWeights weights(std::move(file));
  const absl::Status checked = weights.Check(model);
  if (!checked.ok()) return base::Annotate(checked, path);
  return weights;
}

absl::Status InitialWeights::Check(const gpt::ModelConfig& model) const {
  const std::string assignments = ModelOf(file_->header(), model);
  std::set<std::string> known;
  std::vector<std::string> missing;
  for (const gpt::Parameter& parameter : gpt::ParameterList(model).all) {
    known.insert(parameter.name);
    const io::SafetensorsEntry* const found = file_->Find(parameter.name);
    if (found == nullptr) {
      missing.push_back(parameter.name);
      continue;
    }
    if (found->shape != parameter.shape) {
      return BadWeights("tensor '{}' is {} and {} in the model{}",
                        parameter.name,
                        io::ShapeText(found->shape),
                        io::ShapeText(parameter.shape),
                        ModelHint(assignments));
    }
    if (!IsReadable(found->type->dtype)) {
      return BadWeights("tensor '{}' is {}; F32, BF16 and F16 are read: convert it",
                        parameter.name,
                        found->type->name);
    }
  }
  if (!missing.empty()) {
    return BadWeights("tensor '{}' is missing{}{}",
                      missing.front(),
                      AndMore(missing.size()),
                      ModelHint(assignments));
  }
  std::vector<std::string> others;
  for (const io::SafetensorsEntry& tensor : file_->header().tensors) {
    const bool expected =
        known.contains(tensor.name) || IsOfMoments(file_->header(), tensor.name, known);
    if (!expected) others.push_back(tensor.name);
  }
  if (!others.empty()) {
    return BadWeights("tensor {} is none of the model's{}{}",
                      io::ShownName(others.front()),
                      AndMore(others.size()),
                      ModelHint(assignments));
  }
  // The number of heads is in no shape.
  if (assignments.empty()) return absl::OkStatus();
  return BadWeights("it is of another model, that of{}", assignments);
}

absl::Status InitialWeights::Fill(gpt::Trainer& trainer) const {
  return trainer.FillParameters(
      [this](const std::string& parameter, std::uint64_t element, std::span<float> values) {
        return Read(parameter, element, values);
      });
}

absl::Status InitialWeights::Read(const std::string& parameter,
                                  std::uint64_t element,
                                  std::span<float> values) const {
  const io::SafetensorsEntry& tensor = *file_->Find(parameter);
  const std::uint64_t offset = element * tensor.type->bits / 8;
  if (tensor.type->dtype == DType::kF32) {
    return file_->Read(tensor, offset, std::as_writable_bytes(values));
  }
  std::vector<std::uint16_t> halves(values.size());
  SLUICE_RETURN_IF_ERROR(file_->Read(tensor, offset, std::as_writable_bytes(std::span(halves))));
  const auto convert = tensor.type->dtype == DType::kBF16 ? FloatOfBf16 : FloatOfF16;
  for (std::size_t i = 0; i < halves.size(); ++i) values[i] = convert(halves[i]);
  return absl::OkStatus();
}

}  // namespace sluice::tools
