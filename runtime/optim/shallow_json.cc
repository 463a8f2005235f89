#include "runtime/optim/shallow_json.h"

namespace sluice::optim {

nlohmann::json ParseShallowJson(std::string_view text) {
  using Json = nlohmann::json;
  bool too_deep = false;
  const auto keep = [&too_deep](int depth, Json::parse_event_t event, const Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kJsonDepthMax) too_deep = true;
    return !opens || depth < kJsonDepthMax;
  };
  Json json = Json::parse(text, keep, false);
  return too_deep ? Json(Json::value_t::discarded) : json;
}

}  // namespace sluice::optim
