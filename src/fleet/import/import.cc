#include "fleet/import/import.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/shell_words.h"
#include "fleet/import/deployment.h"
#include "fleet/import/toml.h"
#include "json/json.h"
#include "options/options.h"

namespace coxswain::fleet {
namespace {

// Router arguments that are ours under another name, or the same one.
struct Renamed {
  std::string_view theirs;
  std::string_view ours;
};
constexpr std::array kRenamed{Renamed{"max_concurrent_requests", "max-concurrent-requests"},
                              Renamed{"max_best_of", "max-best-of"},
                              Renamed{"max_stop_sequences", "max-stop-sequences"},
                              Renamed{"max_top_n_tokens", "max-top-n-tokens"},
                              Renamed{"max_input_length", "max-input-tokens"},
                              Renamed{"max_total_tokens", "max-total-tokens"},
                              Renamed{"max_batch_prefill_tokens", "max-batch-prefill-tokens"},
                              Renamed{"max_batch_total_tokens", "max-batch-total-tokens"},
                              Renamed{"waiting_served_ratio", "waiting-served-ratio"},
                              Renamed{"max_waiting_tokens", "max-waiting-tokens"},
                              Renamed{"hostname", "hostname"},
                              Renamed{"port", "port"},
                              Renamed{"validation_workers", "validation-workers"},
                              Renamed{"otlp_endpoint", "otlp-endpoint"}};

// Constants of the planner: fields of PlannerConfig, set by whoever builds one.
constexpr std::array kPlanner{Renamed{"prefill_lower_bound", "prefill_backlog_s.lower"},
                              Renamed{"prefill_upper_bound", "prefill_backlog_s.upper"},
                              Renamed{"decode_lower_bound", "decode_occupancy.lower"},
                              Renamed{"decode_upper_bound", "decode_occupancy.upper"},
                              Renamed{"migration_lower_bound", "migration_s.lower"},
                              Renamed{"migration_upper_bound", "migration_s.upper"},
                              Renamed{"tokens_prefilled_per_sec", "tokens_prefilled_per_s"},
                              Renamed{"tokens_transferred_per_sec", "tokens_transferred_per_s"},
                              Renamed{"max_blocks_per_replica", "blocks_per_replica"},
                              Renamed{"num_available_blocks", "blocks_per_replica"},
                              Renamed{"max_prefill_num", "prefill_max"},
                              Renamed{"min_prefill_num", "prefill_min"},
                              Renamed{"max_decode_num", "decode_max"},
                              Renamed{"min_decode_num", "decode_min"},
                              Renamed{"parameter_size", "parameter_bytes"},
                              Renamed{"scale_down_threshold_millis", "warm_ttl (ReplicaConfig)"}};

template <std::size_t kN>
std::string_view ours_of(const std::array<Renamed, kN>& table, std::string_view theirs) {
  for (const Renamed& each : table) {
    if (each.theirs == theirs) return each.ours;
  }
  return {};
}

bool has_option(std::string_view name) {
  return options::find_option(options::Binary::kLauncher, name) != nullptr;
}

std::string text_of(const json::Value& value) {
  return value.is_string() ? value.as_string() : json::write(value);
}

// As it stands in a template.
std::string line_of(std::string_view table, std::string_view key, const json::Value& value) {
  std::string out = "[";
  return out.append(table).append("] ").append(key).append(" = ").append(text_of(value));
}

class Import {
 public:
  Status add(const ImportFile& file) {
    const std::size_t begin = file.text.find_first_not_of(" \t\r\n");
    const bool is_json = begin != std::string_view::npos && file.text[begin] == '{';
    // A template can begin with [table], so an array is what JSON can read.
    auto json = json::parse(file.text);
    if (is_json && !json.ok()) return json.status();
    if (json.ok() && json.value().is_array()) return add_stubs(json.value());
    if (json.ok()) return add_deployment(json.value());
    auto toml = parse_toml(file.text);
    if (!toml.ok()) return toml.status();
    return add_template(toml.value());
  }

  Imported take() {
    if (models_.empty()) models_.push_back({"--model-id", "MODEL"});
    for (const std::vector<std::string>& model : models_) {
      std::vector<std::string> command{"text-generation-launcher"};
      command.insert(command.end(), model.begin(), model.end());
      command.insert(command.end(), words_.begin(), words_.end());
      out_.commands.push_back(std::move(command));
    }
    return std::move(out_);
  }

 private:
  void note(std::string what, std::string why) {
    out_.without_equivalent.push_back({std::move(what), std::move(why)});
  }
  void option(std::string_view name, std::string value, std::string_view theirs) {
    if (!has_option(name))
      return note(std::string(theirs), "the launcher has no --" + std::string(name));
    words_.push_back("--" + std::string(name));
    words_.push_back(std::move(value));
  }
  Status once(bool& seen, std::string_view what) {
    if (std::exchange(seen, true))
      return invalid_argument("a second " + std::string(what) + " of one set-up");
    return {};
  }

  Status add_deployment(const json::Value& document) {
    if (Status status = once(has_deployment_, "deployment"); !status.ok()) return status;
    auto read = read_deployment(document);
    if (!read.ok()) return read.status();
    const Deployment& made = read.value();
    std::array<std::size_t, 4> n{};
    for (const Deployment::Replica& replica : made.replicas)
      ++n.at(static_cast<std::size_t>(replica.state));
    const std::size_t n_inactive = n[static_cast<std::size_t>(InitState::kInactive)];
    const std::size_t n_active = made.replicas.size() - n_inactive;
    if (n_active > 0) option("replicas", std::to_string(n_active), "replicas");
    std::string roles;
    const auto add_role = [&](std::string_view name, InitState state) {
      const std::size_t count = n[static_cast<std::size_t>(state)];
      if (count == 0) return;
      roles.append(roles.empty() ? "" : ",").append(name).append("=").append(std::to_string(count));
    };
    add_role("prefill", InitState::kPrefill);
    add_role("decode", InitState::kDecode);
    if (!roles.empty()) add_role("mixed", InitState::kNormal);  // else all are: the default
    if (!roles.empty()) option("roles", roles, "init_states");
    if (n_inactive > 0) {
      note(std::to_string(n_inactive) + " replicas of init_states Inactive",
           "the launcher starts what serves");
    }
    if (made.tensor_parallel > 1) {
      note("replicas of " + std::to_string(made.tensor_parallel) + " ranks",
           "a replica has one shard");
    }
    if (made.n_machines > 1) {
      note("machines: " + std::to_string(made.n_machines),
           "the launcher starts replicas on its own machine");
    }
    return {};
  }

  Status add_stubs(const json::Value& document) {
    if (Status status = once(has_stubs_, "stub list"); !status.ok()) return status;
    auto read = read_stubs(document);
    if (!read.ok()) return read.status();
    note(std::to_string(read.value().size()) + " stubs",
         "the launcher starts its shards itself, on private Unix sockets");
    return {};
  }

  Status add_template(const json::Value& document) {
    if (Status status = once(has_template_, "template"); !status.ok()) return status;
    for (const auto& [table, content] : document.as_object()) {
      if (!content.is_object()) return invalid_argument("`" + table + "` must be in a table");
      if (table == "models") {
        if (Status status = add_models(content.as_object()); !status.ok()) return status;
        continue;
      }
      for (const auto& [key, value] : content.as_object()) {
        if (table == "router") {
          add_router(key, value);
        } else {
          note(line_of(table, key, value), why_not(table));
        }
      }
    }
    return {};
  }

  static std::string why_not(std::string_view table) {
    if (table == "datasets" || table == "selection") return "of the experiment, not of the servers";
    if (table == "features") return "nothing is chosen when our programs are compiled";
    if (table == "extra-envs") return "a variable of other programs";
    return "of accelerators and their network";
  }

  void add_router(const std::string& key, const json::Value& value) {
    const std::string what = line_of("router", key, value);
    if (const std::string_view constant = ours_of(kPlanner, key); !constant.empty()) {
      return note(what, "constant " + std::string(constant) + " of the planner, no option yet");
    }
    const std::string_view ours = ours_of(kRenamed, key);
    if (ours.empty()) return note(what, "no option means this");
    if (value.is_array())
      return note(what, "several values are several runs: choose one for --" + std::string(ours));
    option(ours, text_of(value), what);
  }

  Status add_models(const json::Object& models) {
    for (const auto& [name, content] : models) {
      if (!content.is_object()) return invalid_argument("[models] " + name + " must be a table");
      bool has_path = false;
      for (const auto& [key, value] : content.as_object()) {
        const std::string what = line_of("models." + name, key, value);
        if ((key == "path" || key == "model_path") && value.is_string()) {
          models_.push_back({"--model-id", value.as_string()});
          has_path = true;
        } else if (const std::string_view constant = ours_of(kPlanner, key); !constant.empty()) {
          note(what, "constant " + std::string(constant) + " of the planner, no option yet");
        } else {
          note(what, "read from the model");
        }
      }
      if (!has_path) note("[models." + name + "]", "has no path");
    }
    return {};
  }

  Imported out_;
  std::vector<std::vector<std::string>> models_;
  std::vector<std::string> words_;
  bool has_deployment_ = false;
  bool has_stubs_ = false;
  bool has_template_ = false;
};

}  // namespace

Result<Imported> import_setup(std::span<const ImportFile> files) {
  Import import;
  for (const ImportFile& file : files) {
    if (Status status = import.add(file); !status.ok()) return status.with_context(file.name);
  }
  return import.take();
}

std::string text_of(const Imported& imported) {
  std::string out;
  for (const std::vector<std::string>& command : imported.commands) {
    std::string line;
    for (const std::string& word : command)
      line.append(line.empty() ? "" : " ").append(base::shell_quoted(word));
    out.append(line).append("\n");
  }
  if (!imported.without_equivalent.empty()) out.append("\nwithout equivalent:\n");
  for (const ImportNote& note : imported.without_equivalent) {
    out.append("  ").append(note.what).append(": ").append(note.why).append("\n");
  }
  return out;
}

}  // namespace coxswain::fleet
