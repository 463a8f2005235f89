#include "runtime/optim/save/shallow_json.h"

namespace sluice::optim {

nlohmann::json ParseShallowJson(std::string_view text) {
  bool too_deep = false;
  const auto keep = [&too_deep](
                        int depth, nlohmann::json::parse_event_t event, const nlohmann::json&) {
    const bool opens = event == nlohmann::json::parse_event_t::object_start ||
                       event == nlohmann::json::parse_event_t::array_start;
    if (opens && depth >= kJsonDepthMax) too_deep = true;
    return !opens || depth < kJsonDepthMax;
  };
  nlohmann::json json = nlohmann::json::parse(text, keep, false);
  return too_deep ? nlohmann::json(nlohmann::json::value_t::discarded) : json;
}

}  // namespace sluice::optim
