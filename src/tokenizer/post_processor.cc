#include "tokenizer/post_processor.h"

#include <string_view>
#include <utility>

#include "json/json.h"
#include "tokenizer/formats.h"
#include "tokenizer/json_fields.h"

namespace coxswain::tokenizer {
namespace {

Result<TokenId> token_id_of(const json::Value& value, const std::string& where) {
  const auto id = value.to_int64();
  if (!id || *id < 0 || *id > kTokenIdMax) return invalid_argument(where + ": not a token id");
  return static_cast<TokenId>(*id);
}

// Appends the ids of a named special token of a template.
Status append_special(const json::Value& section,
                      const json::Value& item,
                      const std::string& where,
                      std::vector<TokenId>& out) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::string name, string_field(item, "id", where));
  const json::Value* tokens = section.find("special_tokens");
  const json::Value* token = tokens == nullptr ? nullptr : tokens->find(name);
  const json::Value* ids = token == nullptr ? nullptr : token->find("ids");
  if (ids == nullptr || !ids->is_array())
    return invalid_argument(where + ": no ids for the special token \"" + name + "\"");
  for (const json::Value& id : ids->as_array()) {
    COXSWAIN_ASSIGN_OR_RETURN(const TokenId token_id, token_id_of(id, where));
    out.push_back(token_id);
  }
  return {};
}

// A part of the output: special tokens before, between and behind copies of the text.
using Part = std::vector<std::vector<TokenId>>;
// What the reference calls encodings: a processor gets some and makes some.
using Parts = std::vector<Part>;

void append(Part& to, const Part& more) {
  to.back().insert(to.back().end(), more.front().begin(), more.front().end());
  to.insert(to.end(), more.begin() + 1, more.end());
}

Part whole(const Parts& parts) {
  Part out(1);
  for (const Part& part : parts) append(out, part);
  return out;
}

// {"cls": ["[CLS]", 101], "sep": ["[SEP]", 102]}
Status read_pair(const json::Value& section,
                 std::string_view name,
                 const std::string& where,
                 TokenId& out) {
  const json::Value* pair = section.find(name);
  if (pair == nullptr || !pair->is_array() || pair->as_array().size() != 2)
    return field_error(where, name, "[token, id]");
  COXSWAIN_ASSIGN_OR_RETURN(out, token_id_of(pair->as_array()[1], where));
  return {};
}

// Runs the processors in order on a text that nobody has seen yet: what they add does not depend on it.
class Reader {
 public:
  Status read(const json::Value& section, const std::string& where) {
    COXSWAIN_ASSIGN_OR_RETURN(const std::string type, string_field(section, "type", where));
    if (type == "ByteLevel") return read_trimming(section, where);
    if (type == "TemplateProcessing") return read_template(section, where);
    if (type == "BertProcessing") return read_around(section, where, Joint::kNone);
    if (type == "RobertaProcessing") {
      COXSWAIN_RETURN_IF_ERROR(read_trimming(section, where));
      return read_around(section, where, Joint::kSeparator);
    }
    if (type != "Sequence")
      return invalid_argument(where + ": the post-processor \"" + type + "\" is not supported");
    const json::Value* list = section.find("processors");
    if (list == nullptr || !list->is_array()) return field_error(where, "processors", "an array");
    for (std::size_t i = 0; i < list->as_array().size(); ++i)
      COXSWAIN_RETURN_IF_ERROR(
          read(list->as_array()[i], where + ".processors[" + std::to_string(i) + "]"));
    return {};
  }

  PostProcessor finish() && {
    out_.special = whole(with_special_);
    out_.n_plain_copies = whole(plain_).size() - 1;
    return std::move(out_);
  }

 private:
  // What goes before a part that is not the first.
  enum class Joint { kNone, kSeparator };

  Status read_template(const json::Value& section, const std::string& where) {
    COXSWAIN_ASSIGN_OR_RETURN(with_special_, applied(section, where, with_special_, true));
    COXSWAIN_ASSIGN_OR_RETURN(plain_, applied(section, where, plain_, false));
    return {};
  }

  // One part asks for the template "single", two for "pair"; every piece of it is a part.
  static Result<Parts> applied(const json::Value& section,
                               const std::string& where,
                               const Parts& parts,
                               bool has_special) {
    constexpr std::size_t kCopiesMax = 16;
    if (parts.empty() || parts.size() > 2)
      return invalid_argument(where + ": the processors before it make " +
                              std::to_string(parts.size()) +
                              " parts of a text, and a template takes one or two");
    const std::string_view name = parts.size() == 1 ? "single" : "pair";
    const json::Value* pieces = section.find(name);
    if (pieces == nullptr || !pieces->is_array()) return field_error(where, name, "an array");
    Parts out;
    std::size_t n_copies = 0;
    for (const json::Value& piece : pieces->as_array()) {
      const std::string piece_where = where + "." + std::string(name);
      if (const json::Value* special = piece.find("SpecialToken")) {
        Part ids(1);
        COXSWAIN_RETURN_IF_ERROR(append_special(section, *special, piece_where, ids[0]));
        if (has_special) out.push_back(std::move(ids));
        continue;
      }
      const json::Value* sequence = piece.find("Sequence");
      const json::Value* id = sequence == nullptr ? nullptr : sequence->find("id");
      const bool is_first = id != nullptr && id->is_string() && id->as_string() == "A";
      const bool is_second = id != nullptr && id->is_string() && id->as_string() == "B";
      if (!is_first && !(is_second && parts.size() == 2))
        return field_error(where, name, "special tokens and the sequence A, in a pair also B");
      out.push_back(parts[is_first ? 0 : 1]);
      n_copies += out.back().size() - 1;
    }
    if (n_copies > kCopiesMax)
      return invalid_argument(where + "." + std::string(name) + ": writes the text " +
                              std::to_string(n_copies) + " times, more than " +
                              std::to_string(kCopiesMax));
    return out;
  }

  Status read_around(const json::Value& section, const std::string& where, Joint joint) {
    TokenId before = 0;
    TokenId after = 0;
    COXSWAIN_RETURN_IF_ERROR(read_pair(section, "cls", where, before));
    COXSWAIN_RETURN_IF_ERROR(read_pair(section, "sep", where, after));
    for (std::size_t i = 0; i < with_special_.size(); ++i) {
      Part& part = with_special_[i];
      if (i == 0) {
        part.front().insert(part.front().begin(), before);
      } else if (joint == Joint::kSeparator) {
        part.front().insert(part.front().begin(), after);
      }
      part.back().push_back(after);
    }
    return {};
  }

  Status read_trimming(const json::Value& section, const std::string& where) {
    COXSWAIN_ASSIGN_OR_RETURN(out_.trims_offsets, bool_field(section, "trim_offsets", true, where));
    COXSWAIN_ASSIGN_OR_RETURN(out_.adds_prefix_space,
                              bool_field(section, "add_prefix_space", true, where));
    return {};
  }

  PostProcessor out_;
  Parts with_special_ = Parts(1, Part(2));  // starts as the text alone
  Parts plain_ = with_special_;
};

}  // namespace

Result<PostProcessor> parse_post_processor(const json::Value& section, const std::string& where) {
  if (section.is_null()) return PostProcessor();
  Reader reader;
  COXSWAIN_RETURN_IF_ERROR(reader.read(section, where));
  return std::move(reader).finish();
}

}  // namespace coxswain::tokenizer
