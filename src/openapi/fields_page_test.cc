// docs/fields.md: made here of the description and of what the readers do with each name, and held against the file.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/documented_fields.h"
#include "openapi/description.h"
#include "openapi/testing/readers.h"

namespace coxswain::openapi {
namespace {

// A column of the first table: documents, each with the member whose members count as its own, or none.
struct Source {
  std::string_view document;
  std::string_view below = {};
};
struct Column {
  std::string_view title;
  std::vector<Source> sources;
};

const std::array<Column, 6> kColumns{{
    {"Native", {{"GenerateRequest"}, {"GenerateRequest", "parameters"}}},
    {"Chats", {{"ChatRequest"}}},
    {"Completions", {{"CompletionRequest"}}},
    {"Responses", {{"ResponsesRequest"}}},
    {"Messages", {{"MessagesRequest"}}},
    {"Ollama",
     {{"OllamaChatRequest"}, {"OllamaGenerateRequest"}, {"OllamaGenerateRequest", "options"}}},
}};

struct Server {
  char letter;
  std::string_view name;
};
constexpr std::array kServers{Server{'O', "OpenAI"},
                              Server{'A', "Anthropic"},
                              Server{'M', "Ollama"},
                              Server{'V', "vLLM"},
                              Server{'S', "SGLang"},
                              Server{'C', "llama-server"},
                              Server{'D', "LMDeploy"},
                              Server{'N', "TensorRT-LLM"},
                              Server{'T', "TGI"}};

// Names that stand in no list of documented fields: where they are not read they change nothing.
constexpr std::array kOthers{api::DocumentedField{"metadata", "OAVS"},
                             api::DocumentedField{"model", "OAMVSCDNT"},
                             api::DocumentedField{"prompt_cache_key", "O"},
                             api::DocumentedField{"safety_identifier", "O"},
                             api::DocumentedField{"user", "OVSDN"}};

const Object& object_of(const Description& all, const Source& source) {
  const Object* object = all.find(source.document);
  if (!source.below.empty()) object = all.find(object->find(source.below)->type);
  return *object;
}

Reading read_with(const Description& all,
                  const Source& source,
                  std::string_view name,
                  const json::Value& value) {
  json::Value body = *json::parse(all.find(source.document)->smallest);
  if (source.below.empty()) {
    body.as_object().set(std::string(name), value);
  } else {
    json::Object inner;
    inner.append_new(std::string(name), value);
    body.as_object().set(std::string(source.below), std::move(inner));
  }
  return readers().at(source.document)(body, UnknownFields::kIgnored);
}

// What is accepted of a field that a document does not have: the values that change nothing.
std::string neutral_values(const Status& refusal) {
  constexpr std::string_view kBegin = "except as ";
  const std::string& text = refusal.message();
  const std::size_t begin = text.find(kBegin);
  if (begin == std::string::npos) return {};
  const std::size_t end = std::min(text.find(". Given", begin), text.find(" or with", begin));
  std::string out = "`" + text.substr(begin + kBegin.size(), end - begin - kBegin.size()) + "`";
  if (const std::size_t i = out.find(" or "); i != std::string::npos) out.replace(i, 4, "`, `");
  return out;
}

std::string cell_of(const Description& all, const Source& source, std::string_view name) {
  const bool described = object_of(all, source).find(name) != nullptr;
  const json::Value probes =
      *json::parse(R"(["a", 1, {}, true, [], "a", {"type":"auto"}, {"zz":true}])");
  Reading reading;
  for (const json::Value& probe : probes.as_array()) {
    reading = read_with(all, source, name, probe);
    if (described && reading.status.ok()) break;
  }
  const bool is_listed = std::ranges::any_of(reading.ignored, [&](const std::string& ignored) {
    return ignored == name || ignored.ends_with("." + std::string(name));
  });
  if (reading.status.ok() && is_listed) return "ignored";
  return described ? "yes" : neutral_values(reading.status);
}

std::string cell_of(const Description& all, const Column& column, std::string_view name) {
  std::string out;
  for (const Source& source : column.sources) {
    std::string cell = cell_of(all, source, name);
    if (cell == "yes") return cell;
    if (out.empty() || cell == "ignored") out = std::move(cell);
  }
  return out;
}

// As neutral_values() says them.
std::string neutral_of(const api::DocumentedField& field) {
  if (field.neutral.empty()) return {};
  std::string out = "`" + std::string(field.neutral) + "`";
  if (const std::size_t i = out.find(' '); i != std::string::npos) out.replace(i, 1, "`, `");
  return out;
}

std::string matrix(const Description& all) {
  std::vector<api::DocumentedField> rows(kOthers.begin(), kOthers.end());
  for (const api::DocumentedField& field : api::documented_fields()) rows.push_back(field);
  std::ranges::sort(rows, {}, &api::DocumentedField::name);
  std::string out = "| Field | By | Only |";
  std::string rule = "|---|---|---|";
  for (const Column& column : kColumns) {
    out.append(" ").append(column.title).append(" |");
    rule += "---|";
  }
  out += "\n" + rule + "\n";
  for (const api::DocumentedField& row : rows) {
    out.append("| `").append(row.name).append("` | ").append(row.by);
    out += row.by.empty() ? "|" : " |";
    const std::string neutral = neutral_of(row);
    out += neutral.empty() ? " |" : " " + neutral + " |";
    for (const Column& column : kColumns) {
      std::string cell = cell_of(all, column, row.name);
      if (!neutral.empty() && cell == neutral) cell = "only";
      out.append(" ").append(cell).append(cell.empty() ? "|" : " |");
    }
    out += '\n';
  }
  return out;
}

// Lines of at most 120 columns, broken at blanks; those behind the first stand below the text of a list.
std::string wrapped(const std::string& text) {
  constexpr std::size_t kColumnsMax = 120;
  std::istringstream words(text);
  std::string out;
  std::size_t n_columns = 0;
  for (std::string word; words >> word;) {
    const bool fits = n_columns + 1 + word.size() <= kColumnsMax;
    if (!out.empty()) out += fits ? " " : "\n  ";
    n_columns = fits ? n_columns + (out.empty() ? 0 : 1) + word.size() : 2 + word.size();
    out += word;
  }
  return out + "\n";
}

std::string shown(std::string_view type) {
  std::string out;
  for (const char c : type) out += c == '|' ? " | " : std::string(1, c);
  return out;
}

std::string tables(const Description& all) {
  std::string out;
  for (const Object& object : all.objects()) {
    if (object.side != Object::Side::kRequest || !object.type.empty()) continue;
    out.append("\n### ").append(object.name).append("\n\n");
    std::string routes;
    for (const Operation& operation : all.operations()) {
      if (operation.request != object.name) continue;
      routes.append(routes.empty() ? "`" : ", `").append(operation.method).append(" ");
      routes.append(operation.path).append("`");
    }
    if (!routes.empty()) out += "Of " + routes + ".\n\n";
    if (!object.about.empty()) out.append(object.about).append("\n\n");
    for (const Member& member : object.members) {
      std::string line = "- `" + std::string(member.name) + "`";
      if (member.presence == kRequired) line += " (required)";
      line += ": `" + shown(member.type) + "`";
      if (!member.otherwise.empty())
        line.append(", `").append(member.otherwise).append("` if left out");
      if (!member.about.empty()) line.append(". ").append(member.about);
      out += wrapped(line);
    }
  }
  return out;
}

constexpr std::string_view kHead =
    R"(# Fields of requests

Made from the description of the API (`src/openapi`) and from what the server's readers do; a test holds it against
them. `COXSWAIN_UPDATE_DOCS=1 COXSWAIN_SOURCE_DIR=$PWD build/release/bin/coxswain_openapi_test` writes it. What the
fields mean: [api.md](api.md).

## By route

For members of a document; natively also those of `parameters`, in Ollama's documents also those of `options`.

- yes: it has its effect.
- ignored: accepted, changes nothing, and is listed in `x-ignored-fields`.
- only: of its values those of the column "Only" are accepted, as they change nothing; others are refused by name.
- values: the same with these.
- nothing: refused by name.

"By" says whose documentation or sources have the field:)";

constexpr std::string_view kHeadEnd = R"(.
What nobody of these has comes from other engines or is this server's own.

)";

constexpr std::string_view kMiddle = R"(
## Documents

In a type `|` means or, `[T]` is an array, `{T}` an object with any keys, names with a capital are documents below;
`u32`, `u64` and `i32` are integers of so many bits, with a sign or without. Bounds of texts are characters here and
bytes in the server, those of arrays and objects their size. null stands for a member that is left out.
)";

std::string page() {
  const Description all = describe(api::ApiStyle::kOpenAi);
  std::string servers;
  for (const Server& server : kServers) {
    servers.append(servers.empty() ? "" : ", ").append(1, server.letter);
    servers.append(" ").append(server.name);
  }
  return std::string(kHead) + "\n" + servers + std::string(kHeadEnd) + matrix(all) +
         std::string(kMiddle) + tables(all);
}

TEST(FieldsPage, IsCurrent) {
  const char* source = std::getenv("COXSWAIN_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "COXSWAIN_SOURCE_DIR is not set";
  const std::string path = std::string(source) + "/docs/fields.md";
  if (std::getenv("COXSWAIN_UPDATE_DOCS") != nullptr) std::ofstream(path) << page();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == page())
      << path << " is stale: run this test with COXSWAIN_UPDATE_DOCS=1";
}

// The table of documented fields says which documents have one; the description says it again.
TEST(FieldsPage, PlacesAgreeWithTheDescription) {
  const Description all = describe(api::ApiStyle::kOpenAi);
  const std::array<std::pair<Source, std::uint16_t>, 8> places{
      {{{"GenerateRequest"}, api::kNativeDocument},
       {{"GenerateRequest", "parameters"}, api::kNativeParameters},
       {{"ChatRequest"}, api::kChatDocument},
       {{"CompletionRequest"}, api::kCompletionDocument},
       {{"MessagesRequest"}, api::kMessagesDocument},
       {{"ResponsesRequest"}, api::kResponsesDocument},
       {{"OllamaChatRequest"}, api::kOllamaDocument},
       {{"OllamaGenerateRequest", "options"}, api::kOllamaOptions}}};
  for (const auto& [source, place] : places) {
    for (const Member& member : object_of(all, source).members) {
      const api::DocumentedField* field = api::find_documented_field(member.name);
      const bool is_label =
          std::ranges::find(kOthers, member.name, &api::DocumentedField::name) != kOthers.end();
      EXPECT_TRUE(is_label || (field != nullptr && (field->places & place) != 0))
          << source.document << "." << member.name;
    }
  }
  for (const api::DocumentedField& field : api::documented_fields()) {
    for (const auto& [source, place] : places) {
      if ((field.places & place) == 0) continue;
      const bool is_there = object_of(all, source).find(field.name) != nullptr ||
                            (place == api::kOllamaDocument &&
                             all.find("OllamaGenerateRequest")->find(field.name) != nullptr);
      EXPECT_TRUE(
          is_there ||
          !neutral_values(read_with(all, source, field.name, json::Object()).status).empty())
          << source.document << "." << field.name;
    }
  }
}

}  // namespace
}  // namespace coxswain::openapi
