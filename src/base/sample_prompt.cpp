// Tells the JSON of a conversation from a prompt. A prompt may begin as JSON does and be none, so
// the text is parsed.

#include "strata/base/sample_prompt.h"

#include "strata/base/error.h"
#include "strata/base/json.h"

namespace strata {

bool is_conversation(std::string_view entry) {
  if (!entry.starts_with('{')) return false;
  using Json = nlohmann::ordered_json;
  try {
    const Json json = parse_json<Json>(entry);
    return json.is_object() && json.contains("messages");
  } catch (const Json::exception&) {
    return false;
  } catch (const ConfigError&) {
    return false;
  }
}

}  // namespace strata
