#pragma once
// Rows of the tables of migrate. Reasons that several programs share, variables that all of them read, and what TGI
// means otherwise than our option of that name.

#include "migrate/rule.h"

namespace coxswain::migrate {

inline constexpr std::string_view kOfRequests = "a field of requests (docs/api.md)";
inline constexpr std::string_view kNoGpu = "it is about GPUs; the processor computes here";
inline constexpr std::string_view kOneShard =
    "one shard holds the whole model; --replicas starts copies";
inline constexpr std::string_view kOfModel = "the model's own files say it";
inline constexpr std::string_view kShareOfGpu =
    "a share of a GPU's memory; here --memory-bytes-max is for all and --kv-cache-bytes-max for "
    "the cache";
inline constexpr std::string_view kNoAdapters = "adapters are not supported yet";
inline constexpr std::string_view kNoImages = "images are not supported yet";
inline constexpr std::string_view kHubToken = "the variable HF_TOKEN has it, out of process lists";
inline constexpr std::string_view kLogs = "LOG_LEVEL says what is logged (docs/logs.md)";
inline constexpr std::string_view kCallsShow =
    "how calls are written shows in the chat template; --tool-call-parser names others";
inline constexpr std::string_view kThoughtsShow =
    "how thoughts are marked shows in the chat template; --reasoning-parser names others";
inline constexpr std::string_view kRounds =
    "it would quantise while it loads; here --quantize int8 or int4 does";

inline constexpr Rule kCommonRows[] = {
    {.theirs = "CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|HIP_VISIBLE_DEVICES",
     .why = kNoGpu},
    {.theirs = "HF_TOKEN|HUGGING_FACE_HUB_TOKEN|HF_API_TOKEN", .ours = "HF_TOKEN"},
    {.theirs = "HF_HOME", .ours = "HF_HOME"},
    {.theirs = "HF_HUB_CACHE", .ours = "HF_HUB_CACHE"},
    {.theirs = "HF_HUB_OFFLINE", .ours = "HF_HUB_OFFLINE"},
    {.theirs = "HF_ENDPOINT", .ours = "HF_ENDPOINT"},
};

// Before the option table, which has the rest.
inline constexpr Rule kTgiRows[] = {
    {.theirs = "--quantize|QUANTIZE",
     .ours = "quantize",
     .turn = Turn::kWords,
     .words = "awq=awq|gptq=gptq|exl2=exl2|marlin=marlin|compressed-tensors=compressed-tensors",
     .why = kRounds},
};

}  // namespace coxswain::migrate
