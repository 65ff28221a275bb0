#pragma once
// Outputs of models as public pages show them, each with what is read from it.
//
// The texts are the pages'; what is read from them is ours (other programs keep or drop white space otherwise, or show
// less of what is no call).

#include <string_view>
#include <vector>

#include "reply/testing/answers.h"

namespace coxswain::reply::testing {

struct RecordedText {
  std::string_view text;
  Reply reply;
};

struct RecordedPage {
  Formats formats;
  bool in_reasoning = false;  // the prompts have opened the thoughts
  std::string_view page;      // repository at github.com, and the file
  std::vector<RecordedText> texts;
};

// The functions that the pages' requests declare, as far as their formats ask for declarations.
inline std::shared_ptr<const std::vector<Tool>> recorded_tools() {
  auto tools = std::make_shared<std::vector<Tool>>();
  for (const std::string_view name : {"get_weather",
                                      "searchTool",
                                      "getOpenIncidentsTool",
                                      "complexTool",
                                      "parserTool",
                                      "register_user",
                                      "do_something_cool",
                                      "get_car_price",
                                      "python"}) {
    tools->push_back({std::string(name)});
  }
  const auto typed = [&tools](std::string_view name, std::string_view properties) {
    std::string schema = "{\"properties\": ";
    schema.append(properties).append("}");
    tools->push_back({std::string(name), *json::parse(schema)});
  };
  typed("calculate_area",
        R"({"shape": {"type": "string"}, "dimensions": {"type": "object"},
            "precision": {"type": "integer"}})");
  typed("test_types",
        R"({"int_param": {"type": "integer"}, "float_param": {"type": "float"},
            "bool_param": {"type": "boolean"}, "str_param": {"type": "string"},
            "obj_param": {"type": "object"}})");
  return tools;
}

}  // namespace coxswain::reply::testing
