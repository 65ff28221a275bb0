#include "speech/model.h"

#include <utility>

namespace coxswain::speech {
namespace {

template <typename Format>
Status take_named(const NamedParser& parser,
                  std::optional<Format> (*named)(std::string_view),
                  std::string (*names)(),
                  Format& format) {
  if (parser.name.empty()) return {};
  const auto found = named(parser.name);
  if (!found) {
    std::string text(parser.option);
    text.append(" must be one of ").append(names()).append(". Given: ").append(parser.name);
    return invalid_argument(std::move(text));
  }
  format = *found;
  return {};
}

}  // namespace

Result<Manner> manner_of(const chat::TemplateSet& templates,
                         const tokenizer::Tokenizer& tokenizer,
                         const NamedParser& tools,
                         const NamedParser& thoughts) {
  Manner out;
  const auto for_tools = templates.for_tools();
  if (!for_tools.source.empty()) {
    out.reads_tools = for_tools.reads_tools;
    out.formats = reply::detect_formats(for_tools.source, [&](std::string_view text) {
      return tokenizer.token_to_id(text).has_value();
    });
  }
  COXSWAIN_RETURN_IF_ERROR(
      take_named(tools, reply::tool_format_named, reply::tool_format_names, out.formats.tools));
  COXSWAIN_RETURN_IF_ERROR(take_named(thoughts,
                                      reply::reasoning_format_named,
                                      reply::reasoning_format_names,
                                      out.formats.reasoning));
  return out;
}

}  // namespace coxswain::speech
