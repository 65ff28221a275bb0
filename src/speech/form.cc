#include "speech/form.h"

#include <algorithm>
#include <utility>

#include "grammar/token_trie.h"

namespace coxswain::speech {
namespace {

using grammar::Source;

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

Status unsupported(std::string message, const std::string& field) {
  return {Code::kUnimplemented, ErrorKind::kValidation, std::move(message), field};
}

// The text of a JSON string without its quotes.
std::string escaped(std::string_view text) {
  std::string out;
  json::append_quoted(out, text);
  return out.substr(1, out.size() - 2);
}

class FormMaker {
 public:
  explicit FormMaker(const FormInput& input) : input_(input), formats_(input.manner.formats) {
    if (!input.manner.reads_tools) formats_.tools = reply::ToolFormat::kJson;
    if (input.is_tgi) formats_.reasoning = reply::ReasoningFormat::kNone;
    shape_ = reply::call_shape(formats_.tools);
    is_open_ = reply::opens_reasoning(formats_.reasoning, input.prompt);
  }

  Result<Form> make() {
    Form out;
    COXSWAIN_ASSIGN_OR_RETURN(out.thoughts, make_thoughts());
    COXSWAIN_ASSIGN_OR_RETURN(out.grammar, make_grammar());
    if (out.grammar && out.grammar->source.kind == Source::Kind::kTags) spell(out.grammar->source);
    if (out.grammar) out.grammar->source.preamble = preamble();
    if (!tools() && formats_.reasoning == reply::ReasoningFormat::kNone) return out;
    ReplyOptions reply;
    reply.parser = {.formats = formats_, .tools = tools().callable, .in_reasoning = is_open_};
    if (is_required()) reply.parser.formats.tools = shape_.format;
    reply.one_call = !tools().parallel;
    reply.numbers_calls = input_.is_tgi;
    out.reply = std::move(reply);
    return out;
  }

 private:
  const AskedTools& tools() const { return input_.tools; }
  bool is_required() const { return tools() && tools().choice != AskedTools::Choice::kAuto; }
  // Whether a grammar can say what a call looks like in the midst of an answer.
  bool has_shape() const { return shape_.format == formats_.tools; }
  // Whether special tokens frame what the model says, which free text of a grammar cannot hold.
  bool says_in_frames() const {
    return !reply::reasoning_frames(formats_.reasoning).content_begin.empty();
  }
  std::string frame() const { return shape_.marker + shape_.before_name; }

  Result<std::optional<ThoughtBudget>> make_thoughts() const {
    if (!input_.thoughts) return std::optional<ThoughtBudget>();
    const reply::ReasoningFormat format = input_.manner.formats.reasoning;
    const reply::ReasoningFrames frames = reply::reasoning_frames(format);
    if (frames.end.empty()) {
      if (input_.may_lack_thoughts) return std::optional<ThoughtBudget>();
      std::string text = "`" + input_.thoughts->field;
      text.append("` is not supported: the model has no block of thoughts that is known (")
          .append(input_.parser_option)
          .append(")");
      return unsupported(std::move(text), input_.thoughts->field);
    }
    ThoughtBudget out{.tokens_max = input_.thoughts->tokens_max};
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

  Result<std::optional<AskedGrammar>> make_grammar() const {
    const std::optional<AskedGrammar>& asked = input_.grammar;
    if (!tools()) return asked ? framed(*asked) : asked;
    if (asked && input_.is_tgi) {
      return Status(Code::kInvalidArgument,
                    ErrorKind::kToolError,
                    "Grammar and tools are mutually exclusive",
                    asked->field);
    }
    if (is_required()) return std::optional(AskedGrammar{calls(), "tool_choice"});
    if (asked) return either(*asked);
    if (tools().strict.empty() || !has_shape() || shape_.marker.empty() || !input_.allows_grammars)
      return std::optional<AskedGrammar>();
    Source source = calls();
    reply::MessageFrames frames = reply::message_frames(formats_.tools);
    source.messages = {.begins = std::move(frames.begins), .between = std::move(frames.between)};
    if (source.messages.begins.empty()) {
      if (says_in_frames()) return std::optional<AskedGrammar>();
      source.triggers = {shape_.marker.substr(0, shape_.marker.find_last_not_of(" \n") + 1)};
    }
    return std::optional(AskedGrammar{std::move(source), "tools"});
  }

  // What was asked for of the text that the model says, in its frame.
  std::optional<AskedGrammar> framed(const AskedGrammar& asked) const {
    AskedGrammar out = asked;
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
  Result<std::optional<AskedGrammar>> either(const AskedGrammar& asked) const {
    const auto schema = schema_tag(asked.source);
    if (!schema || !has_shape()) {
      return unsupported(
          "`" + asked.field +
              "` is not supported beside `tools`, unless it is a JSON schema and the model " +
              "spells calls as JSON",
          asked.field);
    }
    Source source = calls();
    source.schema = asked.source.schema;
    source.tags.push_back(*schema);
    return std::optional(AskedGrammar{std::move(source), asked.field});
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
    for (std::vector<std::string>* texts :
         {&source.triggers, &source.messages.begins, &source.messages.between}) {
      for (std::string& text : *texts) text = spelled(input_.tokenizer, text);
    }
  }

  grammar::Preamble preamble() const {
    const reply::ReasoningFrames frames = reply::reasoning_frames(formats_.reasoning);
    return {.begin = spelled(input_.tokenizer, frames.begin),
            .end = spelled(input_.tokenizer, frames.end),
            .is_open = is_open_};
  }

  static constexpr const char* kNoParameters =
      R"({"type":"object","properties":{},"additionalProperties":false})";

  const FormInput& input_;
  reply::Formats formats_;
  reply::CallShape shape_;
  bool is_open_ = false;
};

}  // namespace

Result<Form> make_form(const FormInput& input) {
  return FormMaker(input).make();
}

}  // namespace coxswain::speech
