#pragma once
// Calls whose name stands in a frame, with a JSON object behind it.

#include "reply/answer.h"

namespace coxswain::reply {

// DeepSeek: behind the marker of a list of calls or of one call. V3 writes function<sep>NAME and a code fence, V3.1
// NAME<sep> and the object; both are read.
Reading<Outcome> read_deepseek(Answer& answer, int opener);
// Kimi K2: functions.NAME:INDEX, which is the call's id, too.
Reading<Outcome> read_kimi(Answer& answer, int opener);
// Mistral: a list of call objects, or NAME[CALL_ID]ID[ARGS]{...} of which [CALL_ID] and [ARGS] may be missing.
Reading<Outcome> read_mistral(Answer& answer, int opener);
// Functionary: <function=NAME>{...}</function>, or >>>NAME with the object on the next line; >>>all opens text. Code
// behind >>>python or <|python_tag|> is a call of `python`, if that is declared, with the code as the argument `code`.
Reading<Outcome> read_functionary(Answer& answer, int opener);
// The same where an answer begins, whose prompt ends with >>>.
Reading<Outcome> read_functionary_bare(Answer& answer);

// Markers, of which a list opens a section and a single one a call, in this order.
inline constexpr std::string_view kDeepSeekOpeners[] = {"<｜tool▁calls▁begin｜>",
                                                        "<｜tool▁call▁begin｜>"};
inline constexpr std::string_view kDeepSeekInner[] = {
    "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};
inline constexpr std::string_view kKimiOpeners[] = {"<|tool_calls_section_begin|>",
                                                    "<|tool_call_begin|>"};
inline constexpr std::string_view kKimiInner[] = {
    "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>"};
inline constexpr std::string_view kMistralOpeners[] = {"[TOOL_CALLS]"};
inline constexpr std::string_view kMistralInner[] = {"[CALL_ID]", "[ARGS]"};
inline constexpr std::string_view kFunctionaryOpeners[] = {"<function=", ">>>", "<|python_tag|>"};

}  // namespace coxswain::reply
