#ifndef COXSWAIN_COXSWAIN_H_
#define COXSWAIN_COXSWAIN_H_
/* The C API of libcoxswain (C11), for languages that bind to C. It does what local_model.h, executor.h and session.h do
 * in C++:
 *
 *     coxswain_open -> coxswain_chat or coxswain_tokenize -> coxswain_start -> coxswain_enqueue -> coxswain_await ...
 *
 * Errors: a function that can fail returns a code, COXSWAIN_OK or why not; then its results are untouched and *error,
 * if `error` is not NULL, is a sentence that names the field, the limit and the value, to be given to
 * coxswain_text_free. No C++ exception leaves a function.
 *
 * Structs begin with their size, which says what the caller knows of them: make them with their init function, which
 * sets all defaults, and change what is meant. Later versions append fields. A larger struct than this library knows
 * is refused unless what it does not know is zero. No struct has padding at its end.
 *
 * Ownership: who got a handle gives it back. A handle may be given back while those made of it live: an engine keeps
 * its model, a request its prompt. Texts are UTF-8 and end with a zero byte.
 *
 * Thread rule: all functions from any thread; none may still use a handle that another one gives back.
 */

#include <stddef.h>
#include <stdint.h>

#include <coxswain/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): names as C has them. */

/* coxswain::Code of status.h, number for number. */
enum {
  COXSWAIN_OK = 0,
  COXSWAIN_CANCELLED = 1,
  COXSWAIN_INVALID_ARGUMENT = 2,
  COXSWAIN_NOT_FOUND = 3,
  COXSWAIN_FAILED_PRECONDITION = 4,
  COXSWAIN_RESOURCE_EXHAUSTED = 5,
  COXSWAIN_DEADLINE_EXCEEDED = 6,
  COXSWAIN_UNAVAILABLE = 7,
  COXSWAIN_UNIMPLEMENTED = 8,
  COXSWAIN_DATA_LOSS = 9,
  COXSWAIN_INTERNAL = 10
};
typedef int32_t coxswain_code;

/* How an answer ended. */
enum {
  COXSWAIN_FINISH_NONE = 0, /* it goes on, or failed */
  COXSWAIN_FINISH_LENGTH = 1,
  COXSWAIN_FINISH_END_TOKEN = 2,
  COXSWAIN_FINISH_STOP = 3
};

typedef struct coxswain_model coxswain_model;     /* weights, tokenizer and chat template */
typedef struct coxswain_prompt coxswain_prompt;   /* token ids */
typedef struct coxswain_engine coxswain_engine;   /* computes requests with a model */
typedef struct coxswain_session coxswain_session; /* a conversation that goes on turn by turn */

/* Fields are those of LocalModelOptions (local_model.h), their defaults too. */
typedef struct coxswain_model_options {
  size_t struct_size;
  const char* dtype;    /* NULL = as stored */
  const char* quantize; /* NULL = off */
  const char* kv_dtype; /* NULL = by the weights */
  uint64_t kv_bytes;
  uint64_t memory_budget_bytes;
  uint32_t n_threads;
  uint32_t total_tokens_max;
  uint32_t prefill_tokens_max;
  uint32_t batch_size_max;
  uint32_t draft_tokens_max; /* 0 = nothing is guessed ahead */
  uint32_t top_tokens_max;
  const char* isa; /* NULL = the best that runs here */
} coxswain_model_options;

/* Fields are those of ExecutorOptions (executor.h) and SessionsOptions (session.h), their defaults too. */
typedef struct coxswain_engine_options {
  size_t struct_size;
  uint32_t batch_size_max;
  uint32_t prefill_tokens_max;
  uint32_t batch_total_tokens_max;
  uint32_t queue_requests_max;
  uint32_t requests_max;
  uint32_t unread_tokens_max;
  uint64_t stall_timeout_ms;
  uint32_t stop_sequences_max;
  int32_t prefix_caching;      /* 0 or 1 */
  uint64_t session_tokens_max; /* of all sessions */
  uint32_t sessions_max;
  uint32_t iteration_stats_max;
} coxswain_engine_options;

/* Fields are those of Request (request.h), SamplingParams and StoppingParams (types.h), their defaults too. */
typedef struct coxswain_request {
  size_t struct_size;
  const coxswain_prompt* prompt; /* must be set */
  uint32_t max_new_tokens;       /* 0 = as many as there is room for */
  int32_t do_sample;             /* 0 or 1 */
  float temperature;
  int32_t top_k;
  float top_p;
  float typical_p;
  float min_p;
  float repetition_penalty;
  float frequency_penalty;
  float presence_penalty;
  uint64_t seed;
  const char* const* stop; /* [n_stop]; texts that end an answer */
  size_t n_stop;
  int32_t ignore_eos; /* 0 or 1 */
  int32_t priority;
  uint64_t queue_timeout_ms; /* 0 = none */
  uint64_t timeout_ms;       /* 0 = none */
  const char* cache_salt;    /* NULL = none */
  uint32_t n;                /* answers */
  uint32_t best_of;          /* > n: so many are computed, and the n best are the answers */
  uint32_t n_top_tokens;     /* alternatives that are told of each token */
  uint32_t min_new_tokens;
  uint32_t no_repeat_ngram_size;
  const int32_t* logit_bias_tokens; /* [n_logit_bias] */
  const float* logit_bias;          /* [n_logit_bias]; added to the logits of these tokens */
  size_t n_logit_bias;
  /* BeamParams (beam_params.h). A width above 1: a search, whose n best answers come whole at its end, best first. */
  uint32_t beam_width;
  float beam_length_penalty;
  int32_t beam_early_stopping;
  float beam_diversity_rate;
  const int32_t* draft; /* [n_draft]; how the answer may begin (Request::draft of request.h) */
  size_t n_draft;
} coxswain_request;

typedef struct coxswain_top_token {
  int32_t token;
  float logprob;
  const char* text; /* ends with a zero byte */
} coxswain_top_token;

/* What is new of an answer (Response of request.h). Everything it points to lives until coxswain_response_clear. */
typedef struct coxswain_response {
  size_t struct_size;
  uint64_t id;
  const char* text; /* [text_bytes] and a zero byte; may hold zero bytes itself */
  size_t text_bytes;
  const int32_t* tokens; /* [n_tokens] */
  const float* logprobs; /* [n_tokens] */
  size_t n_tokens;
  int32_t is_final;   /* 1: the last one of its request */
  coxswain_code code; /* of the last one of an answer: COXSWAIN_OK, or why it is not whole */
  const char* error;  /* of the last one of an answer that failed, otherwise empty */
  int32_t finish;     /* COXSWAIN_FINISH_... */
  uint32_t n_prompt_tokens;
  uint32_t n_cached_prompt_tokens;
  uint32_t n_generated_tokens;
  void* owned;
  uint32_t sequence;                    /* which of the request's answers */
  int32_t ends_sequence;                /* 1: the last one of this answer */
  const coxswain_top_token* top_tokens; /* of all tokens, one behind the other, best first */
  const uint32_t* n_top_tokens;         /* [n_tokens]; how many of them are of each token */
  double cumulative_logprob;            /* of the answer so far */
  uint32_t n_draft_tokens;          /* guessed ahead and computed, of an answer that has ended */
  uint32_t n_accepted_draft_tokens; /* of these, right */
} coxswain_response;

/* Such as "0.1.0"; lives as long as the library. */
COXSWAIN_EXPORT const char* coxswain_version(void);
COXSWAIN_EXPORT void coxswain_text_free(char* text);

/* The defaults. `struct_size`: sizeof of the caller's struct. */
COXSWAIN_EXPORT void coxswain_model_options_init(coxswain_model_options* options,
                                                 size_t struct_size);
COXSWAIN_EXPORT void coxswain_engine_options_init(coxswain_engine_options* options,
                                                  size_t struct_size);
COXSWAIN_EXPORT void coxswain_request_init(coxswain_request* request, size_t struct_size);
COXSWAIN_EXPORT void coxswain_response_init(coxswain_response* response, size_t struct_size);

/* Opens a model folder and returns once it can compute. `options` may be NULL. */
COXSWAIN_EXPORT coxswain_code coxswain_open(const char* path,
                                            const coxswain_model_options* options,
                                            coxswain_model** model,
                                            char** error);
COXSWAIN_EXPORT void coxswain_model_close(
    coxswain_model* model); /* NULL is fine, as everywhere below */

/* A text as it stands, [text_bytes] of UTF-8, with what the tokenizer puts around it. */
COXSWAIN_EXPORT coxswain_code coxswain_tokenize(const coxswain_model* model,
                                                const char* text,
                                                size_t text_bytes,
                                                coxswain_prompt** prompt,
                                                char** error);
/* A conversation as the model's template writes it: roles[n] and contents[n]. */
COXSWAIN_EXPORT coxswain_code coxswain_chat(const coxswain_model* model,
                                            const char* const* roles,
                                            const char* const* contents,
                                            size_t n_messages,
                                            coxswain_prompt** prompt,
                                            char** error);
COXSWAIN_EXPORT coxswain_code coxswain_prompt_of_ids(const int32_t* ids,
                                                     size_t n_ids,
                                                     coxswain_prompt** prompt,
                                                     char** error);
/* [*n_ids], the prompt's own. */
COXSWAIN_EXPORT const int32_t* coxswain_prompt_ids(const coxswain_prompt* prompt, size_t* n_ids);
COXSWAIN_EXPORT void coxswain_prompt_free(coxswain_prompt* prompt);

/* Starts an engine; one at a time computes with a model. `options` may be NULL. */
COXSWAIN_EXPORT coxswain_code coxswain_start(const coxswain_model* model,
                                             const coxswain_engine_options* options,
                                             coxswain_engine** engine,
                                             char** error);
/* Cancels what is left. */
COXSWAIN_EXPORT void coxswain_close(coxswain_engine* engine);

COXSWAIN_EXPORT coxswain_code coxswain_enqueue(coxswain_engine* engine,
                                               const coxswain_request* request,
                                               uint64_t* id,
                                               char** error);
/* Waits until the request has something new. `timeout_ms` < 0: as long as it takes; otherwise what comes after that
 * time is empty and not final. How a request ended is in the response, also that an id is unknown
 * (COXSWAIN_NOT_FOUND); the code of this function is about its arguments alone. `response` is cleared first. */
COXSWAIN_EXPORT coxswain_code coxswain_await(coxswain_engine* engine,
                                             uint64_t id,
                                             int64_t timeout_ms,
                                             coxswain_response* response,
                                             char** error);
/* Gives back what the response points to; its fields are as after init. */
COXSWAIN_EXPORT void coxswain_response_clear(coxswain_response* response);
/* The request ends with COXSWAIN_CANCELLED, unless it is answered. Unknown ids are ignored. */
COXSWAIN_EXPORT void coxswain_cancel(coxswain_engine* engine, uint64_t id);

/* IterationStats (stats.h) of the steps since the last call, oldest first: a JSON array with the names of
 * TensorRT-LLM's (docs/library.md), to be given to coxswain_text_free. */
COXSWAIN_EXPORT coxswain_code coxswain_iteration_stats(coxswain_engine* engine,
                                                       char** json,
                                                       char** error);

/* Session of session.h, under an id of the program's own. Its functions must not be called behind coxswain_close, but
 * for coxswain_session_free, which gives back the handle and leaves the session as it is. */
COXSWAIN_EXPORT coxswain_code coxswain_session_start(coxswain_engine* engine,
                                                     uint64_t id,
                                                     coxswain_session** session,
                                                     char** error);
/* Cuts it to its first `n_tokens` ids. */
COXSWAIN_EXPORT coxswain_code coxswain_session_step(coxswain_session* session,
                                                    int64_t n_tokens,
                                                    char** error);
COXSWAIN_EXPORT coxswain_code coxswain_session_append(coxswain_session* session,
                                                      const int32_t* ids,
                                                      size_t n_ids,
                                                      char** error);
/* Begins a turn: the request's prompt, which may be NULL here, is added to the session and continued. */
COXSWAIN_EXPORT coxswain_code coxswain_session_enqueue(coxswain_session* session,
                                                       const coxswain_request* turn,
                                                       char** error);
/* As coxswain_await, of the turn. */
COXSWAIN_EXPORT coxswain_code coxswain_session_await(coxswain_session* session,
                                                     int64_t timeout_ms,
                                                     coxswain_response* response,
                                                     char** error);
/* The turn ends with COXSWAIN_CANCELLED. */
COXSWAIN_EXPORT void coxswain_session_cancel(coxswain_session* session);
/* How many ids it has; the first of them, at most `ids_max`, go into `ids`. */
COXSWAIN_EXPORT size_t coxswain_session_ids(const coxswain_session* session,
                                            int32_t* ids,
                                            size_t ids_max);
/* The session ends: behind its turn, or at once. */
COXSWAIN_EXPORT coxswain_code coxswain_session_end(coxswain_session* session, char** error);
COXSWAIN_EXPORT coxswain_code coxswain_session_kill(coxswain_session* session, char** error);
COXSWAIN_EXPORT void coxswain_session_free(coxswain_session* session);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif
