#include "serve/router/chat_model.h"

#include <memory>
#include <string_view>
#include <utility>

#include "chat/template_set.h"

namespace coxswain::serve {
namespace {

Status unknown_parser(std::string_view option, const std::string& given, const std::string& names) {
  std::string text(option);
  text.append(" must be one of ").append(names).append(". Given: ").append(given);
  return invalid_argument(std::move(text));
}

Status take_named(const ChatModelOptions& options, reply::Formats& formats) {
  if (!options.tool_call_parser.empty()) {
    const auto named = reply::tool_format_named(options.tool_call_parser);
    if (!named) {
      return unknown_parser(
          "--tool-call-parser", options.tool_call_parser, reply::tool_format_names());
    }
    formats.tools = *named;
  }
  if (!options.reasoning_parser.empty()) {
    const auto named = reply::reasoning_format_named(options.reasoning_parser);
    if (!named) {
      return unknown_parser(
          "--reasoning-parser", options.reasoning_parser, reply::reasoning_format_names());
    }
    formats.reasoning = *named;
  }
  return {};
}

}  // namespace

Result<router::ChatModel> load_chat_model(const ChatModelOptions& options,
                                          const tokenizer::Tokenizer& tokenizer) {
  COXSWAIN_ASSIGN_OR_RETURN(
      chat::TemplateSet loaded,
      chat::TemplateSet::load(options.model_dir, options.tokenizer_config_path));
  router::ChatModel out;
  COXSWAIN_RETURN_IF_ERROR(take_named(options, out.formats));  // names are checked in any case
  if (loaded.empty()) return out;
  const auto set = std::make_shared<const chat::TemplateSet>(std::move(loaded));
  out.render = [set](const chat::RenderInput& input) { return set->render(input); };
  const auto for_tools = set->for_tools();
  if (for_tools.source.empty()) return out;
  out.reads_tools = for_tools.reads_tools;
  out.formats = reply::detect_formats(for_tools.source, [&](std::string_view text) {
    return tokenizer.token_to_id(text).has_value();
  });
  COXSWAIN_RETURN_IF_ERROR(take_named(options, out.formats));
  return out;
}

}  // namespace coxswain::serve
