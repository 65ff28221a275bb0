#pragma once
// Rows of the tables of migrate. Variables of `ollama serve`, lines of a Modelfile and its parameters.

#include "migrate/rows/common.h"

namespace coxswain::migrate {

inline constexpr Rule kOllamaRows[] = {
    {.theirs = "MODEL|FROM",
     .ours = "model-id",
     .turn = Turn::kModel,
     .why = "not a name of the hub; give a GGUF file, a folder or org/name:TYPE"},
    {.theirs = "num_ctx|OLLAMA_CONTEXT_LENGTH", .ours = "max-total-tokens", .neutral = "0"},
    {.theirs = "num_batch", .ours = "max-batch-prefill-tokens"},
    {.theirs = "num_thread", .ours = "threads", .neutral = "0"},
    {.theirs = "num_gpu|main_gpu", .why = kNoGpu},
    {.theirs = "num_keep",
     .why = "a request that does not fit is refused or ends; nothing is shifted"},
    {.theirs = "num_predict|temperature|top_k|top_p|min_p|typical_p|stop|seed|repeat_penalty|"
               "repeat_last_n|"
               "presence_penalty|frequency_penalty|mirostat|mirostat_eta|mirostat_tau|tfs_z",
     .why = kOfRequests},
    {.theirs = "TEMPLATE",
     .why = "the model's own is used, or --tokenizer-config-path FILE with a template in Jinja"},
    {.theirs = "SYSTEM|MESSAGE", .why = "messages of requests"},
    {.theirs = "ADAPTER", .why = kNoAdapters},
    {.theirs = "LICENSE|REQUIRES", .why = "it changes no answer"},
    {.theirs = "OLLAMA_HOST", .turn = Turn::kAddress},
    {.theirs = "OLLAMA_NUM_PARALLEL", .ours = "max-batch-size", .neutral = "0"},
    {.theirs = "OLLAMA_MAX_QUEUE", .ours = "queue-requests-max"},
    {.theirs = "OLLAMA_ORIGINS", .ours = "cors-allow-origin", .turn = Turn::kEach, .neutral = "*"},
    {.theirs = "OLLAMA_KV_CACHE_TYPE",
     .ours = "kv-cache-dtype",
     .turn = Turn::kWords,
     .words = "f16=float16|q8_0=int8|q4_0=int4"},
    {.theirs = "OLLAMA_FLASH_ATTENTION", .neutral = kAlways},
    {.theirs = "OLLAMA_DEBUG",
     .ours = "LOG_LEVEL",
     .turn = Turn::kWords,
     .words = "0=|false=|1=debug|true=debug|2=trace",
     .why = kLogs},
    {.theirs = "OLLAMA_KEEP_ALIVE|OLLAMA_MAX_LOADED_MODELS",
     .why = "one model is served, from start to end"},
    {.theirs = "OLLAMA_MODELS",
     .why = "that store is not read; give a GGUF file, a folder or org/name:TYPE"},
    {.theirs = "OLLAMA_LOAD_TIMEOUT", .why = "a model may load as long as it takes"},
    {.theirs = "OLLAMA_NOPRUNE|OLLAMA_NOHISTORY", .neutral = kAlways},
    {.theirs = "OLLAMA_SCHED_SPREAD|OLLAMA_GPU_OVERHEAD", .why = kNoGpu},
};

}  // namespace coxswain::migrate
