#pragma once
// Rows of the tables of migrate. Parameters of Triton's TensorRT-LLM backend (config.pbtxt), and `trtllm-serve MODEL`.

#include "migrate/rows/common.h"

namespace coxswain::migrate {

inline constexpr std::string_view kNoEngines =
    "built engines are not read; --model-id is the model in safetensors or GGUF";

inline constexpr Rule kTritonRows[] = {
    {.theirs = "MODEL", .ours = "model-id"},
    {.theirs = "gpt_model_path|engine_dir|encoder_model_path|tokenizer_dir", .why = kNoEngines},
    {.theirs = "--model-repository|--model-store",
     .why = "give the config.pbtxt of the model by --file"},
    {.theirs = "--tokenizer", .why = "the tokenizer in the model's folder is used"},
    {.theirs = "--host", .ours = "hostname"},
    {.theirs = "--port|--http-port", .ours = "port"},
    {.theirs = "--grpc-port|--metrics-port",
     .why = "HTTP is spoken; --prometheus-port answers /metrics alone"},
    {.theirs = "max_batch_size|--max_batch_size", .ours = "max-batch-size", .neutral = "0"},
    {.theirs = "--max_num_tokens", .ours = "max-batch-prefill-tokens"},
    {.theirs = "--max_seq_len", .ours = "max-total-tokens"},
    {.theirs = "max_beam_width|--max_beam_width",
     .neutral = "1",
     .why = "best_of of requests, up to --max-best-of"},
    {.theirs = "--tp_size|--pp_size|--ep_size", .neutral = "1", .why = kOneShard},
    {.theirs = "--backend|backend", .neutral = kAlways},
    {.theirs = "--trust_remote_code", .form = Form::kFlag, .why = "no code of a model is run"},
    {.theirs = "--reasoning_parser",
     .ours = "reasoning-parser",
     .turn = Turn::kWords,
     .words = "deepseek-r1=think|qwen3=think",
     .why = kThoughtsShow},
    {.theirs = "--log_level",
     .ours = "LOG_LEVEL",
     .turn = Turn::kWords,
     .words = "verbose=debug|info=|warning=warn|error=error|internal_error=error",
     .why = kLogs},
    {.theirs = "--config|--extra_llm_api_options",
     .why = "that file is not read; give its options on the command line"},
    {.theirs = "gpt_model_type",
     .ours = "capacity-policy",
     .turn = Turn::kWords,
     .words = "inflight_batching=|inflight_fused_batching=|V1=static-batch|v1=static-batch"},
    {.theirs = "batch_scheduler_policy",
     .ours = "capacity-policy",
     .turn = Turn::kWords,
     .words = "max_utilization=max-utilization|guaranteed_no_evict=guaranteed-no-evict|static_"
              "batch=static-batch"},
    {.theirs = "decoupled|enable_chunked_context|normalize_log_probs|kv_cache_onboard_blocks",
     .neutral = "true|True",
     .why = "it is always so"},
    {.theirs = "max_tokens_in_paged_kv_cache", .ours = "max-batch-total-tokens"},
    {.theirs = "kv_cache_free_gpu_mem_fraction|--kv_cache_free_gpu_memory_fraction|--free_gpu_"
               "memory_fraction",
     .why = kShareOfGpu},
    {.theirs = "max_attention_window_size", .ours = "max-attention-window"},
    {.theirs = "sink_token_length", .ours = "sink-token-length"},
    {.theirs = "enable_kv_cache_reuse",
     .ours = "PREFIX_CACHING",
     .turn = Turn::kWords,
     .words = "true=|True=|false=false|False=false"},
    {.theirs = "kv_cache_host_memory_bytes", .ours = "kv-host-bytes-max", .neutral = "0"},
    {.theirs = "max_queue_size", .ours = "queue-requests-max", .neutral = "0"},
    {.theirs = "max_queue_delay_microseconds", .why = "a request joins the next step"},
    {.theirs = "exclude_input_in_output", .why = kOfRequests},
    {.theirs = "cancellation_check_period_ms|stats_check_period_ms|recv_poll_period_ms|iter_stats_"
               "max_iterations|"
               "request_stats_max_iterations",
     .why = "nothing is polled; /metrics counts"},
    {.theirs = "decoding_mode|medusa_choices|eagle_choices",
     .why = "--speculative-model takes Medusa's heads, --speculate their number"},
    {.theirs = "lora_cache_optimal_adapter_size|lora_cache_max_adapter_size|lora_cache_gpu_memory_"
               "fraction|"
               "lora_cache_host_memory_bytes|lora_prefetch_dir",
     .why = kNoAdapters},
    {.theirs = "multi_block_mode|enable_context_fmha_fp32_acc|cuda_graph_mode|cuda_graph_cache_"
               "size|gpu_device_ids|"
               "gpu_weights_percent|participant_ids",
     .why = kNoGpu},
    {.theirs = "guided_decoding_backend", .neutral = kAlways},
};

}  // namespace coxswain::migrate
