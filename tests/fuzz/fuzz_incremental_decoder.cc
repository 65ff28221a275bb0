// Decoding in steps against decoding at once, for every decoder and every place where a stream may
// begin; fused plans against the same text in one token; broken UTF-8 at every cut.
//
// First byte = decoder, second byte = bit 0: special tokens are skipped, then one byte for each token.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/tokenizer_checks.h"
#include "json/json.h"
#include "tokenizer/decoder.h"
#include "tokenizer/formats.h"

namespace {

using coxswain::TokenId;
using coxswain::fuzz::require;
namespace json = coxswain::json;
namespace tokenizer = coxswain::tokenizer;

constexpr std::size_t kTokensMax = 48;

// Tokens in every spelling that a decoder reads; <s> and </s> are special.
constexpr std::string_view kTokens =
    R"(["a","b","ab","bb","##c","##","\u2581d","\u2581","\u2581\u2581","e</w>","</w>","f"," ","  ",)"
    R"("\u0120g","\u0120","\u00c3","\u00a9","\u00e2","\u0138","\u0123","\u00f0","\u0141",)"
    R"("<0xE2>","<0x96>","<0x81>","<0xC3>","<0xa9>","<0xFF>","<0x41>","<0xzz>","|","<pad>",".","!",)"
    R"("n't","'","s","do"," not","\u00e9","\u4f60","\ud83d\ude00","","\ufffd","x y","aab","\u2581ab"])";

constexpr std::array<std::string_view, 17> kDecoders{
    R"(null)",
    R"({"type":"ByteLevel"})",
    R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always","split":true})",
    R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"never","split":true})",
    R"({"type":"WordPiece","prefix":"##","cleanup":true})",
    R"({"type":"WordPiece","prefix":"##","cleanup":false})",
    R"({"type":"ByteFallback"})",
    R"({"type":"Strip","content":" ","start":1,"stop":1})",
    R"({"type":"Replace","pattern":{"String":"b"},"content":"bc"})",
    R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},"content":" "},)"
    R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})",
    R"({"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":false}]})",
    R"({"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"Replace","pattern":{"Regex":"a+b?"},"content":"<>"}]})",
    // From here on: fused first.
    R"({"type":"Fuse"})",
    R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":2,"stop":2}]})",
    R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":"aab"},"content":"X"}]})",
    R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"Regex":"a+b"},"content":"Y"}]})",
    R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":"ab"},"content":" "},)"
    R"({"type":"Replace","pattern":{"String":"  "},"content":"a"},{"type":"Strip","content":" ","start":1,"stop":3}]})",
};
constexpr std::size_t kFirstFused = 12;

std::string tokenizer_json(std::string_view decoder) {
  const auto tokens = json::parse(kTokens);
  require(tokens.ok(), "the tokens are JSON");
  json::Object vocabulary;
  TokenId next = 0;
  for (const json::Value& token : tokens->as_array())
    vocabulary.append_new(token.as_string(), json::Value::integer(next++));
  std::string out = R"({"added_tokens":[)";
  for (const std::string_view name : {"<s>", "</s>"}) {
    if (name == "</s>") out += ",";
    out += R"({"id":)" + std::to_string(next++) + R"(,"content":")" + std::string(name) +
           R"(","special":true,"normalized":false})";
  }
  return out + R"(],"decoder":)" + std::string(decoder) +
         R"(,"model":{"type":"WordLevel","unk_token":"a","vocab":)" +
         json::write(json::Value(std::move(vocabulary))) + "}}";
}

struct Subject {
  std::unique_ptr<const tokenizer::Tokenizer> tokenizer;
  tokenizer::DecoderPlan plan;
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> made = [] {
    std::vector<Subject> out;
    for (const std::string_view decoder : kDecoders) {
      auto parts = tokenizer::read_tokenizer_json(tokenizer_json(decoder));
      require(parts.ok(), "every decoder is read");
      auto plan = tokenizer::parse_decoder(*json::parse(decoder), "decoder");
      require(plan.ok(), "every decoder alone is read");
      require(parts->added.prepare(parts->normalizer.get()).ok(), "its parts fit together");
      out.push_back({std::make_unique<tokenizer::PipelineTokenizer>(std::move(parts).value()),
                     std::move(plan).value()});
    }
    return out;
  }();
  return made;
}

std::string run_chain(const tokenizer::DecoderPlan& plan, const std::vector<std::string>& tokens) {
  tokenizer::DecoderChain chain(plan);
  std::string out;
  for (const std::string& token : tokens) {
    chain.push(token);
    out += chain.take();
  }
  chain.finish();
  return out + chain.take();
}

// A fused plan sees one string: how it was cut into tokens changes nothing.
void check_fused(const Subject& subject, const std::vector<TokenId>& ids) {
  std::vector<std::string> tokens;
  std::string joined;
  for (const TokenId id : ids) {
    tokens.push_back(subject.tokenizer->token(id));
    joined += tokens.back();
  }
  require(run_chain(subject.plan, tokens) == run_chain(subject.plan, {joined}),
          "a fused decoder does not see tokens");
}

void check_streams(const tokenizer::Tokenizer& tokenizer,
                   const std::vector<TokenId>& ids,
                   bool skip_special) {
  const std::string whole = tokenizer.decode(ids, skip_special);
  require(coxswain::fuzz::is_valid_utf8(whole), "decoded text is UTF-8");
  const auto prefix = tokenizer.incremental({}, skip_special);
  std::string before;
  for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
    const auto stream =
        tokenizer.incremental(std::span<const TokenId>(ids).first(cut), skip_special);
    std::string text = before;
    for (std::size_t i = cut; i < ids.size(); ++i) {
      const std::string piece = stream->push(ids[i]);
      require(coxswain::fuzz::is_valid_utf8(piece), "a piece of a stream has whole characters");
      text += piece;
    }
    text += stream->finish();
    require(text == whole, "what is before a stream and the stream are the whole text");
    if (cut < ids.size()) before += prefix->push(ids[cut]);
  }
}

void check_assembler(std::string_view bytes) {
  using Broken = tokenizer::Utf8Assembler::Broken;
  std::string expected;
  tokenizer::append_lossy(expected, bytes);
  for (const Broken broken : {Broken::kPerSubpart, Broken::kPerByte}) {
    std::string whole;
    tokenizer::Utf8Assembler at_once(broken);
    at_once.push(bytes, whole);
    at_once.finish(whole);
    require(coxswain::fuzz::is_valid_utf8(whole), "assembled text is UTF-8");
    require(broken == Broken::kPerByte || whole == expected, "broken subparts are replaced");
    for (const std::size_t step : {1, 2, 3, 5}) {
      std::string text;
      tokenizer::Utf8Assembler assembler(broken);
      for (std::size_t at = 0; at < bytes.size(); at += step)
        assembler.push(bytes.substr(at, step), text);
      assembler.finish(text);
      require(text == whole, "cuts change nothing");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  coxswain::fuzz::Input input(data, size);
  const std::size_t which = input.byte() % kDecoders.size();
  const bool skip_special = (input.byte() & 1) != 0;
  check_assembler(input.rest());

  const Subject& subject = subjects()[which];
  const auto vocab_size = static_cast<TokenId>(subject.tokenizer->vocab_size());
  std::vector<TokenId> ids;
  for (const char c : input.rest().substr(0, kTokensMax))
    ids.push_back(static_cast<unsigned char>(c) % (vocab_size + 2) -
                  1);  // one too low and too high
  check_streams(*subject.tokenizer, ids, skip_special);
  if (which >= kFirstFused) check_fused(subject, ids);
  return 0;
}
