#include "router/chat_form.h"

#include <algorithm>
#include <utility>

#include "api/fields.h"
#include "grammar/token_trie.h"

namespace coxswain::router {
namespace {

using grammar::Source;

constexpr std::string_view kFallbackPrompt =
    "These functions can be called. To call one, answer with nothing but JSON: {\"name\": the "
    "function's name, "
    "\"arguments\": an object}. Otherwise answer as usual.";

// `text` as grammars spell it: each special token that it holds is marked.
std::string spelled(const tokenizer::Tokenizer& tokenizer, const std::string& text) {
  tokenizer::EncodeOptions options;
  options.add_special_tokens = false;
  const auto encoding = tokenizer.encode(text, options);
  if (!encoding.ok()) return text;
  std::string out;
  std::size_t begin = 0;  // of what is not copied yet
  for (std::size_t i = 0; i < encoding->ids.size(); ++i) {
    if (!tokenizer.is_special(encoding->ids[i])) continue;
    const TextSpan span = encoding->offsets[i];
    if (span.begin < begin || span.end <= span.begin) continue;
    out.append(text, begin, span.begin - begin);
    out += grammar::kSpecialToken;
    out.append(text, span.begin, span.end - span.begin);
    begin = span.end;
  }
  return out.append(text, begin);
}

// The text of a JSON string without its quotes.
std::string escaped(std::string_view text) {
  std::string out;
  json::append_quoted(out, text);
  return out.substr(1, out.size() - 2);
}

class FormMaker {
 public:
  FormMaker(const api::ChatRequest& request, const ChatFormInput& input)
      : request_(request), input_(input), formats_(input.model.formats) {
    if (!input.model.reads_tools) formats_.tools = reply::ToolFormat::kJson;
    // TGI's clients get all of a text.
    if (input.style == api::ApiStyle::kTgi) formats_.reasoning = reply::ReasoningFormat::kNone;
    shape_ = reply::call_shape(formats_.tools);
    is_open_ = reply::opens_reasoning(formats_.reasoning, input.prompt);
  }

  Result<ChatForm> make() {
    ChatForm out;
    COXSWAIN_ASSIGN_OR_RETURN(out.thoughts, make_thoughts());
    COXSWAIN_ASSIGN_OR_RETURN(out.grammar, make_grammar());
    if (out.grammar && out.grammar->source.kind == Source::Kind::kTags) spell(out.grammar->source);
    if (out.grammar) out.grammar->source.preamble = preamble();
    if (!tools() && formats_.reasoning == reply::ReasoningFormat::kNone) return out;
    api::ReplyOptions reply;
    reply.parser = {.formats = formats_, .tools = tools().callable, .in_reasoning = is_open_};
    if (is_required()) reply.parser.formats.tools = shape_.format;
    reply.one_call = !tools().parallel;
    reply.numbers_calls = input_.style == api::ApiStyle::kTgi;
    out.reply = std::move(reply);
    return out;
  }

 private:
  const api::AskedTools& tools() const { return request_.tools; }
  bool is_required() const { return tools() && tools().choice != api::AskedTools::Choice::kAuto; }
  // Whether a grammar can say what a call looks like in the midst of an answer.
  bool has_shape() const { return shape_.format == formats_.tools; }
  // Whether special tokens frame what the model says, which free text of a grammar cannot hold.
  bool says_in_frames() const {
    return formats_.tools == reply::ToolFormat::kHarmony ||
           !reply::reasoning_frames(formats_.reasoning).content_begin.empty();
  }
  std::string frame() const { return shape_.marker + shape_.before_name; }

  Result<std::optional<ThoughtBudget>> make_thoughts() const {
    if (!request_.thoughts) return std::optional<ThoughtBudget>();
    const reply::ReasoningFormat format = input_.model.formats.reasoning;
    const reply::ReasoningFrames frames = reply::reasoning_frames(format);
    if (frames.end.empty()) {
      // Anthropic's clients send it to every model.
      if (input_.style == api::ApiStyle::kAnthropic) return std::optional<ThoughtBudget>();
      return api::unsupported("`" + request_.thoughts->field +
                                  "` is not supported: the model has no block of thoughts that is "
                                  "known (--reasoning-parser)",
                              request_.thoughts->field);
    }
    ThoughtBudget out{.tokens_max = request_.thoughts->tokens_max};
    if (!reply::opens_reasoning(format, input_.prompt)) {
      COXSWAIN_ASSIGN_OR_RETURN(out.open, ids_of(frames.begin));
    }
    COXSWAIN_ASSIGN_OR_RETURN(out.close, ids_of(frames.end));
    return std::optional(std::move(out));
  }

  Result<std::vector<TokenId>> ids_of(std::string_view text) const {
    tokenizer::EncodeOptions options;
    options.add_special_tokens = false;
    COXSWAIN_ASSIGN_OR_RETURN(tokenizer::Encoding encoding, input_.tokenizer.encode(text, options));
    return std::move(encoding.ids);
  }

  Result<std::optional<api::AskedGrammar>> make_grammar() const {
    const std::optional<api::AskedGrammar>& asked = request_.parameters.grammar;
    if (!tools()) return asked ? framed(*asked) : asked;
    if (asked && input_.style == api::ApiStyle::kTgi) {
      return Status(Code::kInvalidArgument,
                    ErrorKind::kToolError,
                    "Grammar and tools are mutually exclusive",
                    asked->field);
    }
    if (is_required()) return std::optional(api::AskedGrammar{calls(), "tool_choice"});
    if (asked) return either(*asked);
    if (tools().strict.empty() || !has_shape() || shape_.marker.empty() || says_in_frames() ||
        !input_.allows_grammars) {
      return std::optional<api::AskedGrammar>();
    }
    Source source = calls();
    source.triggers = {shape_.marker.substr(0, shape_.marker.find_last_not_of(" \n") + 1)};
    return std::optional(api::AskedGrammar{std::move(source), "tools"});
  }

  // What was asked for of the text that the model says, in its frame.
  std::optional<api::AskedGrammar> framed(const api::AskedGrammar& asked) const {
    api::AskedGrammar out = asked;
    const auto schema = schema_tag(asked.source);
    if (schema && !schema->begin.empty()) {
      out.source = {.kind = Source::Kind::kTags, .tags = {*schema}, .schema = asked.source.schema};
    }
    return out;
  }

  // A schema as what the model says; empty for other grammars.
  std::optional<grammar::Tag> schema_tag(const Source& source) const {
    const std::string begin = reply::reasoning_frames(formats_.reasoning).content_begin;
    if (source.kind == Source::Kind::kJsonObject) return grammar::Tag{begin, "", "", "the answer"};
    if (source.kind == Source::Kind::kJsonSchema)
      return grammar::Tag{begin, source.text, "", "the answer"};
    return std::nullopt;
  }

  // One call, or a text of the form that is asked for.
  Result<std::optional<api::AskedGrammar>> either(const api::AskedGrammar& asked) const {
    const auto schema = schema_tag(asked.source);
    if (!schema || !has_shape()) {
      return api::unsupported(
          "`" + asked.field +
              "` is not supported beside `tools`, unless it is a JSON schema and the model " +
              "spells calls as JSON",
          asked.field);
    }
    Source source = calls();
    source.schema = asked.source.schema;
    source.tags.push_back(*schema);
    return std::optional(api::AskedGrammar{std::move(source), asked.field});
  }

  // One call of one of the functions.
  Source calls() const {
    Source out{.kind = Source::Kind::kTags};
    out.tags.reserve(tools().callable->size());
    for (const reply::Tool& tool : *tools().callable) {
      std::string begin = frame();
      begin.append(escaped(tool.name)).append(shape_.between);
      std::string schema = tool.parameters.is_null() ? kNoParameters : json::write(tool.parameters);
      out.tags.push_back({std::move(begin),
                          std::move(schema),
                          shape_.after,
                          "the parameters of `" + tool.name + "`"});
    }
    return out;
  }

  void spell(Source& source) const {
    for (grammar::Tag& tag : source.tags) {
      tag.begin = spelled(input_.tokenizer, tag.begin);
      tag.end = spelled(input_.tokenizer, tag.end);
    }
    for (std::string& trigger : source.triggers) trigger = spelled(input_.tokenizer, trigger);
  }

  grammar::Preamble preamble() const {
    const reply::ReasoningFrames frames = reply::reasoning_frames(formats_.reasoning);
    return {.begin = spelled(input_.tokenizer, frames.begin),
            .end = spelled(input_.tokenizer, frames.end),
            .is_open = is_open_};
  }

  static constexpr const char* kNoParameters =
      R"({"type":"object","properties":{},"additionalProperties":false})";

  const api::ChatRequest& request_;
  const ChatFormInput& input_;
  reply::Formats formats_;
  reply::CallShape shape_;
  bool is_open_ = false;
};

}  // namespace

Result<ChatForm> chat_form(const api::ChatRequest& request, const ChatFormInput& input) {
  return FormMaker(request, input).make();
}

json::Value messages_with_tools(const json::Value& messages,
                                const api::AskedTools& tools,
                                bool template_reads_tools) {
  if (!tools || (template_reads_tools && !tools.prompt)) return messages;
  json::Array out = messages.as_array();
  json::Object& last = out.back().as_object();
  const json::Value* content = last.find("content");
  if (content == nullptr || !content->is_string()) return messages;
  std::string text = content->as_string();
  text += "\n---\n";
  if (!template_reads_tools) {
    text += json::write(tools.list);
    text += '\n';
  }
  text += tools.prompt ? *tools.prompt : std::string(kFallbackPrompt);
  last.set("content", json::Value(std::move(text)));
  return json::Value(std::move(out));
}

}  // namespace coxswain::router
