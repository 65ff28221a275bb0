#pragma once
// Calls whose arguments stand between tags, one by one. A call comes out when it has ended, as its arguments are typed
// by the schema; one that breaks off is text.

#include "reply/answer.h"

namespace coxswain::reply {

// Qwen3-Coder: behind <tool_call> or <function=: <function=NAME> <parameter=KEY>value</parameter> ... </function>
Reading<Outcome> read_qwen3_coder(Answer& answer, int opener);
// GLM 4.5: behind <tool_call>: NAME <arg_key>KEY</arg_key> <arg_value>value</arg_value> ... </tool_call>
Reading<Outcome> read_glm45(Answer& answer, int opener);

inline constexpr std::string_view kQwen3CoderOpeners[] = {"<tool_call>", "<function="};
inline constexpr std::string_view kTagInner[] = {"</tool_call>"};
inline constexpr std::string_view kGlm45Inner[] = {
    "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};

}  // namespace coxswain::reply
