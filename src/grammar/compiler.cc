#include "grammar/compiler.h"

#include <list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/keyed_hash.h"
#include "base/mutex.h"
#include "grammar/ebnf.h"
#include "grammar/pattern.h"
#include "grammar/regex.h"
#include "json/json.h"

namespace coxswain::grammar {
namespace {

constexpr std::size_t kSchemaDepthMax = 64;

std::size_t source_bytes(const Source& source) {
  std::size_t n = source.text.size();
  for (const std::string& choice : source.choices) n += choice.size();
  for (const Tag& tag : source.tags) n += tag.begin.size() + tag.schema.size() + tag.end.size();
  for (const std::string& trigger : source.triggers) n += trigger.size();
  for (const std::string& text : source.messages.begins) n += text.size();
  for (const std::string& text : source.messages.between) n += text.size();
  return n;
}

Result<Node> read(Expressions& expressions, const Source& source) {
  switch (source.kind) {
    case Source::Kind::kJsonSchema: {
      const auto schema = json::parse(source.text, {.depth_max = kSchemaDepthMax});
      if (!schema.ok()) {
        return Status(Code::kInvalidArgument,
                      ErrorKind::kValidation,
                      "the schema is no JSON: " + schema.status().message());
      }
      return schema_expression(expressions, schema.value(), source.schema);
    }
    case Source::Kind::kJsonObject:
      return any_json_object(expressions, source.schema);
    case Source::Kind::kRegex:
      return parse_regex(expressions, source.text);
    case Source::Kind::kChoice: {
      std::vector<Node> texts;
      for (const std::string& choice : source.choices) {
        if (choice.empty()) return invalid_argument("a choice may not be empty");
        texts.push_back(expressions.bytes(choice));
      }
      if (texts.empty()) return invalid_argument("there is nothing to choose from");
      return expressions.choice(texts);
    }
    case Source::Kind::kRules:
      return parse_rules(expressions, source.text);
    case Source::Kind::kTags:
      if (!source.messages.begins.empty())
        return messages_text(expressions, source.tags, source.messages, source.schema);
      return tagged_text(expressions, source.tags, source.triggers, source.schema);
  }
  return internal_error("a grammar of a kind that is not known");
}

Result<Node> read_all(Expressions& expressions, const Source& source) {
  if (const std::size_t n = source_bytes(source); n > kSourceBytesMax) {
    return Status(Code::kResourceExhausted,
                  ErrorKind::kValidation,
                  "the grammar has " + std::to_string(n) + " bytes; at most " +
                      std::to_string(kSourceBytesMax) + " are allowed");
  }
  COXSWAIN_ASSIGN_OR_RETURN(const Node before, preamble_text(expressions, source.preamble));
  COXSWAIN_ASSIGN_OR_RETURN(const Node text, read(expressions, source));
  return expressions.sequence({before, text});
}

// What tells sources apart.
std::string key_of(const Source& source) {
  std::string key;
  const auto add = [&](std::string_view part) {
    key += std::to_string(part.size());
    key += ':';
    key += part;
  };
  key += std::to_string(static_cast<int>(source.kind));
  key += std::to_string(static_cast<int>(source.schema.space));
  key += source.schema.closes_objects ? 'c' : 'o';
  key += source.preamble.is_open ? 'i' : 'b';
  add(source.preamble.begin);
  add(source.preamble.end);
  add(source.text);
  for (const std::string& choice : source.choices) add(choice);
  key += std::to_string(source.tags.size());
  for (const Tag& tag : source.tags) {
    add(tag.begin);
    add(tag.schema);
    add(tag.end);
  }
  key += std::to_string(source.triggers.size());
  for (const std::string& trigger : source.triggers) add(trigger);
  key += std::to_string(source.messages.begins.size());
  for (const std::string& text : source.messages.begins) add(text);
  for (const std::string& text : source.messages.between) add(text);
  return key;
}

}  // namespace

Result<Program> compile(const Source& source) {
  Expressions expressions;
  COXSWAIN_ASSIGN_OR_RETURN(const Node text, read_all(expressions, source));
  return compile_program(expressions, text);
}

Result<CompiledGrammar> compile_source(const Source& source, Form form) {
  Expressions expressions;
  COXSWAIN_ASSIGN_OR_RETURN(const Node text, read_all(expressions, source));
  const auto program = compile_program(expressions, text);
  if (!program.ok()) return program.status();
  if (form == Form::kPattern) {
    COXSWAIN_ASSIGN_OR_RETURN(const std::string pattern, pattern_of(expressions, text));
    return carry_pattern(pattern);
  }
  auto bytes = std::make_shared<const std::string>(program->to_bytes());
  if (bytes->size() > kCompiledBytesMax) {
    return Status(Code::kResourceExhausted,
                  ErrorKind::kValidation,
                  "the compiled grammar has " + std::to_string(bytes->size()) + " bytes; at most " +
                      std::to_string(kCompiledBytesMax) + " are allowed");
  }
  return CompiledGrammar{std::move(bytes)};
}

// The answers by source, the one used last in front.
class Compiler::Kept {
 public:
  using Answer = Result<CompiledGrammar>;

  explicit Kept(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  std::optional<Answer> find(const std::string& key) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    const auto at = by_key_.find(key);
    if (at == by_key_.end()) return std::nullopt;
    entries_.splice(entries_.begin(), entries_, at->second);
    return at->second->answer;
  }

  void add(std::string key, const Answer& answer) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    if (by_key_.contains(key)) return;
    const std::size_t n_bytes = 2 * key.size() + (answer.ok() ? answer->size() : 0) + kEntryBytes;
    if (n_bytes > bytes_max_) return;
    n_bytes_ += n_bytes;
    entries_.push_front({key, answer, n_bytes});
    by_key_.emplace(std::move(key), entries_.begin());
    while (n_bytes_ > bytes_max_) {
      n_bytes_ -= entries_.back().n_bytes;
      by_key_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

 private:
  static constexpr std::size_t kEntryBytes = 256;  // beside its texts
  struct Entry {
    std::string key;
    Answer answer;
    std::size_t n_bytes = 0;
  };

  const std::size_t bytes_max_;
  base::Mutex mu_;
  std::list<Entry> entries_ GUARDED_BY(mu_);
  std::unordered_map<std::string, std::list<Entry>::iterator, base::KeyedHash, std::equal_to<>>
      by_key_ GUARDED_BY(mu_);
  std::size_t n_bytes_ GUARDED_BY(mu_) = 0;
};

Compiler::Compiler(std::size_t kept_bytes_max, Form form)
    : kept_(std::make_unique<Kept>(kept_bytes_max)), form_(form) {}
Compiler::~Compiler() = default;

Result<CompiledGrammar> Compiler::compile(const Source& source) {
  std::string key = key_of(source);
  if (const auto kept = kept_->find(key)) return *kept;
  auto answer = compile_source(source, form_);
  kept_->add(std::move(key), answer);
  return answer;
}

}  // namespace coxswain::grammar
