#include "tools/doctor/section.h"

#include <utility>

#include "fmt/format.h"
#include "tools/support/wrap.h"

namespace sluice::tools {

void Section::Add(const std::string& key, nlohmann::ordered_json value, std::string text) {
  fields_.push_back({key, std::move(value), std::move(text)});
}

std::string Section::ToJson() const {
  nlohmann::ordered_json object;
  object["section"] = name_;
  for (const Field& field : fields_) object[field.key] = field.value;
  if (!warnings_.empty()) object["warnings"] = warnings_;
  // File names and driver texts need not be UTF-8.
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string Section::ToText() const {
  std::string text = name_ + "\n";
  for (const Field& field : fields_) text += fmt::format("  {:<18} {}\n", field.key, field.text);
  for (const std::string& warning : warnings_) text += fmt::format("  ! {}\n", warning);
  return WrapLines(text, 4);
}

}  // namespace sluice::tools
