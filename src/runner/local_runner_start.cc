// How a LocalRunner comes to be: options are checked, model and what guesses tokens read, memory is planned and taken,
// a step is warmed up.

#include <algorithm>
#include <utility>

#include "base/cpu_topology.h"
#include "base/float_mode.h"
#include "base/machine.h"
#include "base/numbers.h"
#include "base/random.h"
#include "base/thread_name.h"
#include "kernels/kernel_table.h"
#include "kernels/probe.h"
#include "runner/head_source.h"
#include "runner/local_runner.h"
#include "tokenizer/text_codec.h"
#include "weights/shared_image.h"

namespace coxswain::runner {
namespace {

constexpr std::uint32_t kPlansInFlightMax = 2;
// Rows of logits held at once: enough for the head to read its weights once per step, small beside the weights.
constexpr std::size_t kLogitRowsMax = 64;
constexpr const char* kEngineVersion = "coxswain-0.1.0";

tensor::DType kv_type_of(const RunnerOptions& options, const model::ModelInfo& info) {
  if (options.kv_dtype) return *options.kv_dtype;
  if (info.kv_dtype) return *info.kv_dtype;
  if (info.dtype == tensor::name_of(tensor::DType::kF32)) return tensor::DType::kF32;
  if (info.dtype == tensor::name_of(tensor::DType::kF16)) return tensor::DType::kF16;
  return tensor::DType::kBf16;
}

// A lower bound, before any tensor is read: stored weights may be float32, and take that much less in a narrower
// format. 0 for a checkpoint that cannot be opened: loading it says why.
std::uint64_t weight_bytes_min(const RunnerOptions& options) {
  const auto stored = model::stored_weight_bytes(options.model_dir);
  const std::uint64_t bytes = stored.ok() ? stored.value() : 0;
  if (const auto* format = kernels::find_format(options.quantize)) return bytes / 32 * format->bits;
  const bool may_shrink =
      options.dtype == tensor::DType::kBf16 || options.dtype == tensor::DType::kF16;
  return may_shrink ? bytes / 4 : bytes;
}

// The part of it that this process counts.
std::uint64_t weight_share_min(const RunnerOptions& options) {
  const std::uint64_t bytes = weight_bytes_min(options);
  return options.shared_weights_fd < 0
             ? bytes
             : base::ceil_div<std::uint64_t>(bytes, std::max<std::uint32_t>(options.sharers, 1));
}

Result<std::uint64_t> memory_budget(const RunnerOptions& options) {
  if (options.memory_budget_bytes != 0) return options.memory_budget_bytes;
  COXSWAIN_ASSIGN_OR_RETURN(const std::uint64_t available, base::available_memory_bytes());
  return available - std::min(available, options.others_bytes);
}

Status check_local_options(const RunnerOptions& options) {
  if (options.top_tokens_max > kLocalTopTokensMax) {
    return invalid_argument("top_tokens_max must be at most " + std::to_string(kLocalTopTokensMax) +
                                ". Given: " + std::to_string(options.top_tokens_max),
                            "top_tokens_max");
  }
  for (const auto& [name, processor] : options.logits_processors) {
    if (processor == nullptr)
      return invalid_argument(
          "logits_processors must have none that is null. Given: `" + name + "`",
          "logits_processors");
  }
  return {};
}

// How many tokens are guessed in a step with this folder. Errors: those of its config.json; more than there are heads.
Result<std::uint32_t> guesses_max(std::uint32_t wanted, const std::string& folder) {
  COXSWAIN_ASSIGN_OR_RETURN(const model::GuessConfig config, model::read_guess_config(folder));
  if (!config.is_heads()) {
    if (wanted > 0) return wanted;
    return invalid_argument("`speculate` must be above 0 with a draft model: " + folder,
                            "speculate");
  }
  if (wanted > config.n_heads) {
    const bool is_medusa = config.kind == model::GuessConfig::Kind::kMedusa;
    return invalid_argument("Speculate is set to `" + std::to_string(wanted) + "` but this " +
                                (is_medusa ? "medusa" : "mlp_speculator") + " models only has `" +
                                std::to_string(config.n_heads) + "` heads, please make them match",
                            "speculate");
  }
  return wanted > 0 ? wanted : static_cast<std::uint32_t>(config.n_heads);
}

// A token must mean the same to both.
Status check_same_tokens(const tokenizer::Tokenizer& model, const tokenizer::Tokenizer& draft) {
  const auto differ = [](const std::string& how) {
    return invalid_argument("its tokenizer is not the model's: " + how, "speculative_model");
  };
  if (model.vocab_size() != draft.vocab_size()) {
    return differ(std::to_string(draft.vocab_size()) + " tokens, the model has " +
                  std::to_string(model.vocab_size()));
  }
  for (std::size_t i = 0; i < model.vocab_size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (model.token(id) == draft.token(id)) continue;
    return differ("token " + std::to_string(i) + " is `" + draft.token(id) + "`, the model's is `" +
                  model.token(id) + "`");
  }
  return {};
}

// What a block of each layer holds, where all layers of the group hold the same.
void fill_shape(const kvstore::KvStoreOptions& kv, std::uint32_t group, KvGroup& to) {
  const kvstore::KvLayerShape* first = nullptr;
  for (const kvstore::KvLayerShape& layer : kv.layers) {
    if (layer.group != group) continue;
    if (first == nullptr) first = &layer;
    if (layer.n_kv_heads != first->n_kv_heads || layer.k_head_dim != first->k_head_dim ||
        layer.v_head_dim != first->v_head_dim) {
      return;
    }
  }
  if (first == nullptr) return;
  to.dtype = tensor::name_of(kv.type);
  to.n_kv_heads = first->n_kv_heads;
  to.k_dim = first->k_head_dim;
  to.v_dim = first->v_head_dim;
}

ExecutorLimits limits_of(const RunnerOptions& options) {
  ExecutorLimits out;
  out.rows_max = std::size_t{options.max_batch_prefill_tokens} + options.max_batch_size;
  out.logit_rows_max = std::min(out.rows_max, kLogitRowsMax);
  out.top_tokens_max = options.top_tokens_max;
  out.output_bytes_max = options.output_bytes_max;
  out.logits_processors = options.logits_processors;
  out.draft_tokens_max = options.draft_tokens_max;
  out.draft_policy = options.draft_policy;
  return out;
}

}  // namespace

Result<std::unique_ptr<LocalRunner>> LocalRunner::create(const RunnerOptions& options) {
  const base::FloatMode mode;
  COXSWAIN_ASSIGN_OR_RETURN(const kernels::KernelTable* kernels,
                            kernels::select_kernels(options.isa));
  COXSWAIN_ASSIGN_OR_RETURN(std::string kernel_set_id, kernels::kernel_set_id(*kernels));
  COXSWAIN_ASSIGN_OR_RETURN(const std::uint64_t budget, memory_budget(options));
  COXSWAIN_RETURN_IF_ERROR(check_weights_fit(budget, weight_bytes_min(options)));
  RunnerOptions resolved = options;
  resolved.memory_budget_bytes = budget;  // as it was before the weights were taken

  model::LoadOptions load;
  std::shared_ptr<const TextCodec> codec;
  auto tokenizer = options.tokenizer;
  if (!options.without_text) {
    if (tokenizer == nullptr) {
      COXSWAIN_ASSIGN_OR_RETURN(
          tokenizer,
          tokenizer::Tokenizer::load(options.model_dir,
                                     {.tokenizer_config_path = options.tokenizer_config_path}));
    }
    load.n_token_ids = tokenizer->vocab_size();
    load.tokenizer_eos = tokenizer->eos_id();
    codec = std::make_shared<tokenizer::TokenizerCodec>(tokenizer);
  }
  load.model_dir = options.model_dir;
  load.dtype = options.dtype;
  load.quantize = options.quantize;
  load.windows = options.windows;
  load.rope = options.rope;
  load.kernels = kernels;
  load.progress = options.progress;
  load.cache = {.folder = options.weights_cache_dir,
                .bytes_max = options.weights_cache_bytes_max,
                .maker = std::string(kEngineVersion) + " " + kernel_set_id};
  // The threads that will compute read and pack, too.
  std::unique_ptr<LocalRunner> runner(new LocalRunner());
  runner->make_threads(options);
  if (options.profile_steps > 0 && options.on_profile) {
    runner->profile_ = std::make_unique<kernels::StepProfile>(*kernels);
    runner->exec_->set_profile(runner->profile_.get());
    load.kernels = &runner->profile_->kernels();
  }
  load.exec = runner->exec_.get();
  COXSWAIN_RETURN_IF_ERROR(runner->load_model(options, load));
  runner->codec_ = std::move(codec);
  if (!options.speculative_model_dir.empty()) {
    COXSWAIN_ASSIGN_OR_RETURN(resolved.draft_tokens_max,
                              guesses_max(options.draft_tokens_max, options.speculative_model_dir));
    COXSWAIN_RETURN_IF_ERROR(runner->load_draft(
        resolved, std::move(load), options.without_text ? nullptr : tokenizer.get()));
  }
  COXSWAIN_ASSIGN_OR_RETURN(runner, finish(std::move(runner), resolved, std::move(kernel_set_id)));
  if (runner->arriving_ != nullptr)
    runner->loader_ = std::thread([self = runner.get(), resolved] {
      base::name_thread("loader");
      self->load_arriving(resolved);
    });
  return runner;
}

// Or what is there of it before its weights.
Status LocalRunner::load_model(const RunnerOptions& options, model::LoadOptions load) {
  // One packs for all that share, while they wait.
  std::optional<kernels::ExecContext> of_all;
  if (options.shared_weights_fd >= 0) {
    const std::size_t n = std::min(base::usable_cores(), load.exec->n_threads() * options.sharers);
    if (n > load.exec->n_threads()) {
      of_all.emplace(n).set_profile(load.exec->profile());
      load.exec = &*of_all;
    }
  }
  load.shared_fd = options.shared_weights_fd;
  load.source = options.weights_source;
  load.store = options.weights_store;
  n_loading_threads_ = load.exec->n_threads();
  if (load.source == nullptr || !options.speculative_model_dir.empty()) {
    COXSWAIN_ASSIGN_OR_RETURN(model_, model::Model::load(load));
    return {};
  }
  COXSWAIN_ASSIGN_OR_RETURN(model::Model::Outline outline, model::Model::outline(load));
  model_ = std::move(outline.model);
  arriving_ = std::move(outline.weights);
  if (arriving_ == nullptr) return {};
  residency_ = std::make_unique<Residency>();
  source_ = options.weights_source;
  return {};
}

Status LocalRunner::load_draft(const RunnerOptions& options,
                               model::LoadOptions load,
                               const tokenizer::Tokenizer* tokenizer) {
  const std::string context = "speculative_model " + options.speculative_model_dir;
  load.model_dir = options.speculative_model_dir;
  load.windows = {};
  load.rope.reset();
  // The form in which the large model is stored is not that of the small one.
  if (kernels::find_format(load.quantize) == nullptr) load.quantize.clear();
  COXSWAIN_ASSIGN_OR_RETURN(const model::GuessConfig config,
                            model::read_guess_config(load.model_dir));
  if (config.is_heads()) {
    auto heads = model::GuessHeads::load(load, *model_, HeadSource::kRowsMax, exec_->n_threads());
    if (!heads.ok()) return heads.status().with_context(context);
    heads_ = std::move(heads).value();
    return {};
  }
  if (tokenizer != nullptr) {
    auto own = tokenizer::Tokenizer::load(load.model_dir, {});
    if (!own.ok()) return own.status().with_context(context);
    const Status same = check_same_tokens(*tokenizer, **own);
    if (!same.ok()) return same.with_context(context);
  }
  auto loaded = model::Model::load(load);
  if (!loaded.ok()) return loaded.status().with_context(context);
  draft_model_ = std::move(loaded).value();
  if (tokenizer == nullptr && draft_model_->info().vocab_size != model_->info().vocab_size) {
    return invalid_argument(
        context + ": it has a vocabulary of " + std::to_string(draft_model_->info().vocab_size) +
            " tokens, the model one of " + std::to_string(model_->info().vocab_size),
        "speculative_model");
  }
  return {};
}

// Guesses are for few sequences at a time; a share of the memory that the large model would hardly miss is enough.
DraftModelOptions LocalRunner::draft_options(const RunnerOptions& options,
                                             std::uint64_t available) const {
  constexpr std::uint32_t kStreams = 16;
  constexpr std::uint64_t kShare = 16;
  const model::ModelInfo& info = draft_model_->info();
  DraftModelOptions out{.n_max = options.draft_tokens_max,
                        .kv_type = kv_type_of({}, info),
                        .vocab_size = model_->info().vocab_size};
  const std::uint32_t longest = std::min(
      info.max_position_embeddings,
      options.max_total_tokens != 0 ? options.max_total_tokens : info.max_position_embeddings);
  const std::uint64_t wanted = std::uint64_t{longest + options.draft_tokens_max + 16} *
                               std::clamp(options.max_batch_size, 1U, kStreams);
  const std::uint64_t each = DraftModel::kv_bytes_per_token(*draft_model_, out);
  out.kv_tokens = static_cast<std::uint32_t>(std::min(
      {wanted, available / kShare / std::max<std::uint64_t>(each, 1), std::uint64_t{1} << 30}));
  return out;
}

std::string LocalRunner::speculation() const {
  if (info_.capabilities.draft_tokens_max == 0) return "";
  const std::string method = draft_ == nullptr ? "n-gram" : std::string(draft_->name());
  return "Using speculation " + method + " with " +
         std::to_string(info_.capabilities.draft_tokens_max) + " input ids.";
}

Result<std::string> LocalRunner::outlook(const RunnerOptions& options) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::uint64_t budget, memory_budget(options));
  COXSWAIN_ASSIGN_OR_RETURN(model::ModelInfo model, model::describe_folder(options.model_dir));
  kvstore::KvStoreOptions kv;
  // Where it follows from the stored type, which only the weights tell, two bytes are the usual case.
  kv.type = kv_type_of(options, model);
  kv.block_tokens = options.block_tokens;
  kv.layers = std::move(model.kv_layers);
  std::uint64_t block_bytes = 0;
  for (std::uint32_t group = 0; group < model.kv_groups.size(); ++group)
    block_bytes += kvstore::KvStore::bytes_per_block(kv, group);
  const std::uint64_t weights = weight_share_min(options);
  const std::uint64_t reserve = reserve_bytes_of(budget);
  const std::uint64_t left = budget - std::min(budget, weights + reserve);
  return format_bytes(budget) + " available, weights at least " + format_bytes(weights) + ", " +
         format_bytes(reserve) + " in reserve, KV cache at most " + format_bytes(left) + " (" +
         format_bytes(block_bytes / options.block_tokens) + " a token)";
}

Status LocalRunner::check_fits(const RunnerOptions& options) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::uint64_t budget, memory_budget(options));
  return check_weights_fit(budget, weight_share_min(options));
}

bool LocalRunner::prefers_own_weights(const RunnerOptions& options) {
  if (weights::shared_memory_is_huge() || !weights::own_memory_is_huge()) return false;
  const auto budget = memory_budget(options);
  return budget.ok() &&
         has_room_for_own_weights(*budget, weight_bytes_min(options), options.kv_bytes);
}

Result<std::unique_ptr<LocalRunner>> LocalRunner::create_with(
    const RunnerOptions& options,
    std::unique_ptr<model::Model> model,
    std::shared_ptr<const TextCodec> codec,
    std::string kernel_set_id) {
  std::unique_ptr<LocalRunner> runner(new LocalRunner());
  runner->make_threads(options);
  runner->model_ = std::move(model);
  runner->codec_ = std::move(codec);
  return finish(std::move(runner), options, std::move(kernel_set_id));
}

void LocalRunner::make_threads(const RunnerOptions& options) {
  const std::size_t n_threads = options.n_threads != 0 ? options.n_threads : base::usable_cores();
  if (options.pin_threads) cpus_ = base::order_by_core(base::allowed_cpus()).cpus;
  exec_ = std::make_unique<kernels::ExecContext>(n_threads, cpus_);
  exec_->pool().shuffle_tasks(options.task_order_seed);
}

Result<std::unique_ptr<LocalRunner>> LocalRunner::finish(std::unique_ptr<LocalRunner> runner,
                                                         const RunnerOptions& options,
                                                         std::string kernel_set_id) {
  COXSWAIN_RETURN_IF_ERROR(runner->set_up(options, std::move(kernel_set_id)));
  runner->compute_ = std::thread([self = runner.get()] {
    base::name_thread("compute");
    self->compute_loop();
  });
  // Worker 0 of the pool.
  if (!runner->cpus_.empty()) base::bind_to_cpu(runner->compute_, runner->cpus_.front());
  // Without weights the first step is the first that somebody waits for.
  if (runner->residency_ == nullptr) COXSWAIN_RETURN_IF_ERROR(runner->warm_up());
  base::MutexLock lock(runner->mu_);
  runner->warm_ = true;
  return runner;
}

Status LocalRunner::set_up(const RunnerOptions& options, std::string kernel_set_id) {
  const model::ModelInfo& model = model_->info();
  const std::size_t n_threads = exec_->n_threads();
  profile_steps_ = options.profile_steps;
  on_profile_ = options.on_profile;
  ExecutorLimits limits = limits_of(options);
  if (limits.rows_max == 0)
    return invalid_argument("max_batch_prefill_tokens must be above 0", "max_batch_prefill_tokens");
  COXSWAIN_RETURN_IF_ERROR(check_local_options(options));

  kvstore::KvStoreOptions kv;
  kv.type = kv_type_of(options, model);
  kv.block_tokens = options.block_tokens;
  kv.layers = model.kv_layers;
  MemoryRequest request;
  request.groups = model.kv_groups;
  std::uint64_t block_bytes = 0;  // of every group
  for (std::uint32_t group = 0; group < model.kv_groups.size(); ++group) {
    request.groups[group].bytes_per_block = kvstore::KvStore::bytes_per_block(kv, group);
    block_bytes += request.groups[group].bytes_per_block;
  }
  COXSWAIN_ASSIGN_OR_RETURN(request.available_bytes, memory_budget(options));
  request.shared_weight_bytes = std::min(model.shared.bytes, model.weight_bytes);
  request.sharers = std::max<std::uint32_t>(options.sharers, 1);
  request.weight_bytes = model.weight_bytes - request.shared_weight_bytes;
  request.workspace_bytes =
      model_->workspace_bytes(limits.rows_max, limits.logit_rows_max, n_threads) +
      StepExecutor::workspace_bytes(model, limits, n_threads) + options.attachment_bytes_max +
      options.output_bytes_max;
  DraftModelOptions draft;
  if (draft_model_ != nullptr) {
    draft = draft_options(options, request.available_bytes);
    request.draft_bytes = DraftModel::bytes(*draft_model_, draft, n_threads);
  }
  const std::size_t n_head_rows = std::min(limits.logit_rows_max, HeadSource::kRowsMax);
  if (heads_ != nullptr) request.draft_bytes = HeadSource::bytes(*model_, *heads_, n_head_rows);
  request.block_tokens = options.block_tokens;
  request.kv_type = tensor::name_of(kv.type);
  request.kv_blocks = options.kv_blocks;
  request.kv_bytes = options.kv_bytes;
  request.kv_fraction = options.kv_fraction;
  request.total_tokens_max = options.max_total_tokens;
  request.position_max = model.max_position_embeddings;
  request.batch_size_max = options.max_batch_size;
  request.row_tokens_max = options.max_batch_prefill_tokens;
  if (block_bytes == 0 || request.block_tokens == 0) {
    return invalid_argument("the KV cache needs blocks of at least one token", "block_tokens");
  }
  COXSWAIN_ASSIGN_OR_RETURN(plan_, plan_memory(request));
  COXSWAIN_RETURN_IF_ERROR(model_->reserve(limits.rows_max, limits.logit_rows_max, *exec_));
  for (const KvGroup& group : plan_.groups) kv.n_blocks.push_back(group.n_blocks);
  COXSWAIN_ASSIGN_OR_RETURN(kv_, kvstore::KvStore::create(kv));
  limits.total_tokens_max = plan_.total_tokens_max;
  if (options.attachment_bytes_max > 0) attachments_.emplace(options.attachment_bytes_max);
  fill_info(options, std::move(kernel_set_id));
  layout_ = kv_layout_of(info_);
  COXSWAIN_RETURN_IF_ERROR(
      make_guesser(draft, n_head_rows, options.draft_tokens_max).with_context("speculative_model"));
  if (codec_ != nullptr) grammars_.emplace(*codec_, model.vocab_size);
  executor_.emplace(ExecutorParts{.model = model_.get(),
                                  .kv = &*kv_,
                                  .exec = exec_.get(),
                                  .codec = codec_.get(),
                                  .attachments = attachments_ ? &*attachments_ : nullptr,
                                  .layout = &layout_,
                                  .grammars = grammars_ ? &*grammars_ : nullptr,
                                  .guesser = draft_.get(),
                                  .residency = residency_.get()},
                    limits);
  return {};
}

Status LocalRunner::make_guesser(const DraftModelOptions& draft,
                                 std::size_t n_head_rows,
                                 std::uint32_t draft_tokens_max) {
  if (draft_model_ != nullptr) {
    COXSWAIN_ASSIGN_OR_RETURN(auto made,
                              DraftModel::create(std::move(draft_model_), draft, *exec_));
    COXSWAIN_RETURN_IF_ERROR(made->measure());
    draft_ = std::move(made);
  }
  if (heads_ != nullptr) {
    auto made = std::make_unique<HeadSource>(
        *model_, std::move(heads_), n_head_rows, draft_tokens_max, *exec_);
    COXSWAIN_RETURN_IF_ERROR(made->measure());
    draft_ = std::move(made);
  }
  return {};
}

void LocalRunner::fill_info(const RunnerOptions& options, std::string kernel_set_id) {
  const model::ModelInfo& model = model_->info();
  info_.engine_version = kEngineVersion;
  info_.epoch = base::random_u64();
  info_.model_id = options.model_id.empty() ? options.model_dir : options.model_id;
  info_.model_type = model.model_type;
  info_.dtype = model.dtype;
  info_.kernel_set_id = std::move(kernel_set_id);
  info_.model_fingerprint = model.fingerprint;
  info_.vocab_size = model.vocab_size;
  info_.hidden_size = model.hidden_size;
  info_.n_layers = model.n_layers;
  info_.max_position_embeddings = model.max_position_embeddings;
  info_.max_total_tokens = plan_.total_tokens_max;
  info_.block_tokens = options.block_tokens;
  info_.kv_groups = plan_.groups;
  for (std::uint32_t group = 0; group < info_.kv_groups.size(); ++group)
    fill_shape(kv_->options(), group, info_.kv_groups[group]);
  info_.eos_token_ids = model.eos_token_ids;
  info_.rope_switch_length = model.rope_switch_length;
  info_.rope_length_is_exact = model.rope_length_is_exact;
  info_.capabilities = {.plans_chunks = true,
                        .selects_rows = true,
                        .grows_blocks = true,
                        .takes_ids = true,
                        .look_ahead = true,
                        .edits = true,
                        .layer_ranges = attachments_.has_value(),
                        .attachments = attachments_.has_value(),
                        .moves = true,
                        .exports_beside = attachments_.has_value(),
                        .plans_in_flight_max = kPlansInFlightMax,
                        .draft_tokens_max = options.draft_tokens_max,
                        .candidates_max = kTopTokensMax,
                        .attachment_bytes_max = options.attachment_bytes_max,
                        .top_tokens_max = options.top_tokens_max,
                        .output_bytes_max = options.output_bytes_max};
  for (const auto& [name, processor] : options.logits_processors) {
    if (!name.empty()) info_.logits_processors.push_back(name);
  }
}

// One prompt and one decode step in block 0, which belongs to nobody, then forgotten: faults code
// and memory in.
Status LocalRunner::warm_up() {
  const SequenceId id{~std::uint64_t{0}};
  const std::uint32_t n_prompt =
      std::max(1u, std::min({8u, info_.block_tokens - 1, info_.max_total_tokens - 1}));
  // Too small for a decode step.
  if (info_.max_total_tokens < n_prompt + 2 || info_.block_tokens < n_prompt + 1) return {};
  StepPlan first{.epoch = info_.epoch};
  SequenceSpec spec{.id = id, .prompt = std::vector<TokenId>(n_prompt, 0)};
  spec.stopping = {.max_new_tokens = 2, .ignore_eos = true};
  spec.sampling.do_sample = true;
  spec.sampling.top_p = 0.9F;
  first.new_sequences.push_back(spec);
  Row row{.sequence = id, .n_tokens = n_prompt, .tokens = spec.prompt, .emit = Emit::kSample};
  for (std::uint32_t group = 0; group < info_.kv_groups.size(); ++group) {
    row.table_changes.push_back({.kv_group = group, .first_index = 0, .blocks = {0}});
  }
  first.rows.push_back(row);
  StepPlan second{.step = 1, .epoch = info_.epoch};
  second.rows.push_back({.sequence = id,
                         .first_position = n_prompt,
                         .n_tokens = 1,
                         .continues = true,
                         .emit = Emit::kSample});
  StepPlan last{.step = 2, .epoch = info_.epoch};
  last.dropped.push_back(id);
  for (StepPlan* plan : {&first, &second, &last}) {
    auto result = run(std::move(*plan));
    if (!result.ok()) return result.status().with_context("warm-up");
    for (const SequenceResult& sequence : result->sequences) {
      if (!sequence.status.ok()) return sequence.status.with_context("warm-up");
    }
  }
  return {};
}

}  // namespace coxswain::runner
