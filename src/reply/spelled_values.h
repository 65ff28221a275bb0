#pragma once
// Calls whose arguments are values in a spelling of their own: those of Python, and Gemma's. A call comes out when it
// has ended; one that breaks off is text.

#include "reply/answer.h"

namespace coxswain::reply {

// Llama: behind a marker, [NAME(key=value, ...), ...]
Reading<Outcome> read_pythonic(Answer& answer, int opener);
// The same where an answer begins, of declared names.
Reading<Outcome> read_pythonic_bare(Answer& answer);
// Llama 3: behind <|python_tag|>, call objects or NAME.call(key=value, ...)
Reading<Outcome> read_python_tag(Answer& answer, int opener);
// Gemma: behind a marker, call:NAME{key:value,...}; strings stand between two delimiters.
Reading<Outcome> read_gemma(Answer& answer, int opener);
// What Gemma 3 writes where its prompt asks for it: a list of calls as in Python, or call objects.
Reading<Outcome> read_gemma_bare(Answer& answer);

inline constexpr std::string_view kPythonicOpeners[] = {"<|python_start|>", "<|python_tag|>"};
inline constexpr std::string_view kPythonicInner[] = {"<|python_end|>"};
inline constexpr std::string_view kPythonTag[] = {"<|python_tag|>"};
inline constexpr std::string_view kGemmaOpeners[] = {"<start_function_call>", "<|tool_call>"};
inline constexpr std::string_view kGemmaInner[] = {
    "<end_function_call>", "<tool_call|>", "<escape>", "<|\"|>"};

}  // namespace coxswain::reply
