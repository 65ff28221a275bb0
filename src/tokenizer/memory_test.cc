// What an encode call allocates for a long text of one character, and that ids are the same without
// offsets. Counts every operator new of this test binary's thread.

#include <algorithm>
#include <cstdlib>
#include <malloc.h>
#include <new>
#include <numeric>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "json/json.h"
#include "tokenizer/bpe.h"
#include "tokenizer/formats.h"
#include "tokenizer/piece_models.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/rank_bpe.h"
#include "tokenizer/regex.h"
#include "tokenizer/sentencepiece.h"

namespace {

// The replaced operators have no other place for their state.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
thread_local std::size_t heap_bytes = 0;
thread_local std::size_t heap_peak = 0;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t n_bytes) {
  void* const out = std::malloc(n_bytes);
  if (out == nullptr) std::abort();
  heap_bytes += malloc_usable_size(out);
  heap_peak = std::max(heap_peak, heap_bytes);
  return out;
}
// Sanitizers bring one of their own, whose memory the replaced operator delete could not free.
[[gnu::noinline]] void* operator new(std::size_t n_bytes, const std::nothrow_t&) noexcept {
  return operator new(n_bytes);
}
[[gnu::noinline]] void operator delete(void* pointer) noexcept {
  heap_bytes -= malloc_usable_size(pointer);
  std::free(pointer);
}
[[gnu::noinline]] void operator delete(void* pointer, std::size_t) noexcept {
  operator delete(pointer);
}

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kTextBytes = 200'000;

std::unique_ptr<Tokenizer> tokenizer_of(const std::string& document) {
  auto parts = read_tokenizer_json(document);
  if (!parts.ok()) return nullptr;
  if (!parts->added.prepare(parts->normalizer.get()).ok()) return nullptr;
  return std::make_unique<PipelineTokenizer>(std::move(parts).value());
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 3; ++i)
      word = word << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      out.push_back(at + i <= bytes.size() ? kDigits[word >> (18 - 6 * i) & 63] : '=');
  }
  return out;
}

std::string repeated(std::string_view unit) {
  std::string out;
  while (out.size() < kTextBytes) out += unit;
  return out;
}

// The most bytes that a call held; with offsets without those of the ids and offsets it returned.
std::size_t peak_of(const Tokenizer& tokenizer, const std::string& text, bool wants_offsets) {
  EncodeOptions options;
  options.wants_offsets = wants_offsets;
  EXPECT_TRUE(tokenizer.encode("a7", options).ok());  // makes the cache of words, of fixed size
  const std::size_t before = heap_bytes;
  heap_peak = heap_bytes;
  const auto encoding = tokenizer.encode(text, options);
  EXPECT_TRUE(encoding.ok());
  const std::size_t n_result = encoding->ids.size() * (sizeof(TokenId) + sizeof(TextSpan));
  return heap_peak - before - (wants_offsets ? n_result : 0);
}

// Unigram over words of which none is removed, one token for each blank.
constexpr const char* kUnigram =
    R"({"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"},)"
    R"("model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-1],["a",-2],["aa",-3],["7",-1]]}})";
// Each digit and each sign is a piece and a token.
constexpr const char* kPieces =
    R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[)"
    R"({"type":"Digits","individual_digits":true},{"type":"Punctuation"},)"
    R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},)"
    R"("model":{"type":"BPE","merges":["a a"],"vocab":{"a":0,"aa":1,"7":2,"'":3,"Ġ":4}}})";

// Pieces by a pattern that has no scanner, joined with what follows.
constexpr const char* kPattern =
    R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[)"
    R"({"type":"Split","pattern":{"Regex":"[\\p{N}']"},"behavior":"MergedWithNext","invert":false},)"
    R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},)"
    R"("model":{"type":"BPE","merges":["a a"],"vocab":{"a":0,"aa":1,"7":2,"'":3,"Ġ":4}}})";
// Neighbouring unknown characters are one unknown token.
constexpr const char* kJoined =
    R"({"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"merges":["a a"],)"
    R"("vocab":{"<unk>":0,"a":1,"aa":2,"'":3}}})";

// The text is written anew before it is cut.
constexpr const char* kMarked =
    R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
    R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]},)"
    R"("model":{"type":"BPE","merges":["a a","▁ ▁"],"vocab":{"a":0,"aa":1,"▁":2,"▁▁":3,"7":4}}})";

// Unknown characters become bytes, so the model reads characters of the byte alphabet.
constexpr const char* kSpelled =
    R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[)"
    R"({"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false}]},)"
    R"("model":{"type":"BPE","byte_fallback":true,"merges":["a a"],)"
    R"("vocab":{"a":0,"aa":1,"7":2,"b":3,"'":4,"Ġ":5,"ð":6,"Ł":7,"ĺ":8,"Ģ":9,"ä":10,"½":11,"ł":12}}})";
// The text is written in the byte alphabet and cut again behind that.
constexpr const char* kEarlyBytes =
    R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[)"
    R"({"type":"ByteLevel","add_prefix_space":false},{"type":"Digits","individual_digits":true}]},)"
    R"("model":{"type":"BPE","merges":["a a","ð Ł"],"vocab":{"a":0,"aa":1,"7":2,"'":3,"Ġ":4,"ð":5,"Ł":6,"ðŁ":7,"ĺ":8,"Ģ":9,"ä":10,"½":11,"ł":12}}})";
// Joined unknown characters are part of a merge.
constexpr const char* kJoinedMerge =
    R"({"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"merges":["<unk> a","a a"],)"
    R"("vocab":{"<unk>":0,"a":1,"aa":2,"'":3,"<unk>a":4}}})";
// Every other character becomes another one, of the same length or not.
constexpr const char* kLower =
    R"({"normalizer":{"type":"Lowercase"},"added_tokens":[{"id":9,"content":"<s>","special":true}],)"
    R"("model":{"type":"BPE","merges":["a a"],"unk_token":"?","vocab":{"?":0,"a":1,"aa":2}}})";

// Ranks of the bytes and of "aa", "aaaa", "a'".
std::unique_ptr<Tokenizer> rank_tokenizer() {
  std::string file;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    file += base64(text) + " " + std::to_string(byte) + "\n";
  }
  file += base64("aa") + " 256\n" + base64("aaaa") + " 257\n" + base64("a'") + " 258\n";
  auto parts = read_tiktoken(file, {});
  EXPECT_TRUE(parts.ok());
  return parts.ok() ? std::make_unique<PipelineTokenizer>(std::move(parts).value()) : nullptr;
}

// A SentencePiece BPE model of a few pieces.
std::unique_ptr<Tokenizer> piece_tokenizer() {
  SentencePieceModel model;
  model.type = SentencePieceModel::Type::kBpe;
  model.remove_extra_blanks = false;
  model.pieces = {{"<unk>", 0, PieceKind::kUnknown},
                  {"a", -1},
                  {"aa", -2},
                  {"\xE2\x96\x81", -3},
                  {"\xE2\x96\x81\xE2\x96\x81", -4},
                  {"7", -5},
                  {"'", -6}};
  auto parts = parts_from_pieces(model, ControlPieces::kIgnored);
  EXPECT_TRUE(parts.ok() && parts->added.prepare(parts->normalizer.get()).ok());
  return parts.ok() ? std::make_unique<PipelineTokenizer>(std::move(parts).value()) : nullptr;
}

TEST(TokenizerMemory, ALongRunTakesLessThanTenTimesItsBytes) {
  const std::pair<const char*, std::unique_ptr<Tokenizer>> tokenizers[] = {
      {"Unigram", tokenizer_of(kUnigram)},
      {"pieces", tokenizer_of(kPieces)},
      {"a pattern without a scanner", tokenizer_of(kPattern)},
      {"joined unknown characters", tokenizer_of(kJoined)},
      {"blanks written as a character", tokenizer_of(kMarked)},
      {"pieces spelled in the byte alphabet", tokenizer_of(kSpelled)},
      {"bytes written early", tokenizer_of(kEarlyBytes)},
      {"joined unknown characters that merge", tokenizer_of(kJoinedMerge)},
      {"ranks", rank_tokenizer()},
      {"SentencePiece BPE", piece_tokenizer()}};
  for (const auto& [name, tokenizer] : tokenizers) {
    ASSERT_TRUE(tokenizer) << name;
    for (const char* unit : {"a", "7", " ", "'", "\xF0\x9F\x98\x80", "\xE4\xBD\xA0"}) {
      const std::string text = repeated(unit);
      EXPECT_LT(peak_of(*tokenizer, text, false), 10 * kTextBytes) << name << ": " << unit;
      EXPECT_LT(peak_of(*tokenizer, text, true), 10 * kTextBytes) << name << ", offsets: " << unit;
    }
  }
}

TEST(TokenizerMemory, TextsThatChangeAllTheTimeTakeLessThanTenTimesTheirBytes) {
  struct Case {
    const char* document;
    const char* unit;
  };
  for (const Case& hard : {Case{kLower, "a\u00C0"},  // as long in lower case
                           Case{kLower, "a\u2C62"},  // shorter by a byte
                           Case{kLower, "<s>"},
                           Case{kLower, "a<s>"},
                           Case{kMarked, "a "},
                           Case{kUnigram, "a "}}) {
    const auto tokenizer = tokenizer_of(hard.document);
    ASSERT_TRUE(tokenizer);
    const std::string text = repeated(hard.unit);
    EXPECT_LT(peak_of(*tokenizer, text, false), 10 * kTextBytes) << hard.unit;
    EXPECT_LT(peak_of(*tokenizer, text, true), 10 * kTextBytes) << "offsets: " << hard.unit;
  }
}

// The definition of the algorithm: join the leftmost pair of lowest rank until there is none.
std::vector<TokenId> merged_one_by_one(std::vector<TokenId> ids, const MergeTable& merges) {
  for (;;) {
    const MergeTable::Entry* best = nullptr;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const MergeTable::Entry* entry = merges.find(ids[i], ids[i + 1]);
      if (entry == nullptr || (best != nullptr && entry->rank >= best->rank)) continue;
      best = entry;
      place = i;
    }
    if (best == nullptr) return ids;
    ids[place] = best->id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(LongWords, MergesComeInTheOrderOfTheDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 6; ++round) {
    // Letters a, b, c; tokens made of two earlier ones, with ranks in any order.
    TokenTable names;
    std::vector<std::string> tokens{"a", "b", "c"};
    for (std::size_t i = 0; i < 3; ++i) names.add(tokens[i], static_cast<TokenId>(i));
    std::vector<std::uint32_t> ranks(24);
    std::iota(ranks.begin(), ranks.end(), 0U);
    if (round % 2 == 1) std::shuffle(ranks.begin(), ranks.end(), random);
    MergeTable merges;
    for (const std::uint32_t rank : ranks) {
      const std::size_t left = random() % tokens.size();
      const std::size_t right = random() % tokens.size();
      const std::string joined = tokens[left] + tokens[right];
      const auto id = static_cast<TokenId>(tokens.size());
      if (joined.size() > 12 || !names.add(joined, id)) continue;
      tokens.push_back(joined);
      merges.set(static_cast<TokenId>(left), static_cast<TokenId>(right), rank, id);
    }
    std::string word;
    std::vector<TokenId> symbols;
    const std::size_t others = round < 2 ? 1000 : 3;  // mostly one letter, or all of them
    while (word.size() < 6000) {
      const std::size_t drawn = random() % others;
      symbols.push_back(static_cast<TokenId>(drawn < 3 ? drawn : 0));
      word += tokens[static_cast<std::size_t>(symbols.back())];
    }
    const std::vector<TokenId> expected = merged_one_by_one(symbols, merges);
    const Bpe model(names, std::move(merges), {});
    ModelScratch scratch;
    std::vector<PieceToken> got;
    model.encode(word, scratch, got);
    std::vector<TokenId> ids;
    std::size_t n_bytes = 0;
    for (const PieceToken& token : got) {
      ids.push_back(token.id);
      n_bytes += token.n_bytes;
    }
    EXPECT_EQ(ids, expected) << "round " << round;
    EXPECT_EQ(n_bytes, word.size());
  }
}

// The definition for tokens with ranks: join the leftmost two that make the token of lowest rank.
std::vector<TokenId> joined_one_by_one(std::vector<std::string> parts,
                                       const TokenTable& names,
                                       const std::vector<std::uint32_t>& ranks) {
  for (;;) {
    std::uint32_t best = kNoRank;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto id = names.find(parts[i] + parts[i + 1]);
      if (!id || ranks[static_cast<std::size_t>(*id)] >= best) continue;
      best = ranks[static_cast<std::size_t>(*id)];
      place = i;
    }
    if (best == kNoRank) break;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  std::vector<TokenId> ids;
  ids.reserve(parts.size());
  for (const std::string& part : parts) ids.push_back(names.find_or(part, 0));
  return ids;
}

TEST(LongWords, RanksAreTakenInTheOrderOfTheDefinition) {
  std::mt19937 random(11);
  const std::vector<std::string> letters{"a", "\u00E9", "\u4F60"};  // the last is no token
  for (int round = 0; round < 6; ++round) {
    TokenTable names;
    names.add("<unk>", 0);
    std::vector<std::string> tokens = letters;
    for (TokenId id = 1; id < 3; ++id) names.add(letters[static_cast<std::size_t>(id - 1)], id);
    std::vector<std::uint32_t> ranks{kNoRank, 0, 0};
    while (ranks.size() < 24) {
      const std::string joined =
          tokens[random() % tokens.size()] + tokens[random() % tokens.size()];
      if (joined.size() > 24 || !names.add(joined, static_cast<TokenId>(ranks.size()))) continue;
      tokens.push_back(joined);
      ranks.push_back(static_cast<std::uint32_t>(round % 2 == 0 ? ranks.size() : random() % 8));
    }
    std::string word;
    std::vector<std::string> parts;
    const std::size_t others = round < 2 ? 1000 : 3;  // mostly one letter, or all of them
    while (word.size() < 6000) {
      const std::size_t drawn = random() % others;
      parts.push_back(letters[drawn < 3 ? drawn : 0]);
      word += parts.back();
    }
    const std::vector<TokenId> expected = joined_one_by_one(parts, names, ranks);
    RankBpeOptions options;
    options.ranks = ranks;
    options.unk = 0;
    const RankBpe model(names, options);
    ModelScratch scratch;
    std::vector<PieceToken> got;
    model.encode(word, scratch, got);
    std::vector<TokenId> ids;
    for (const PieceToken& token : got) {
      std::uint32_t n_characters = 0;  // unknown characters that stand together are one token
      for (std::uint32_t n = 0; token.id == 0 && n < token.n_bytes; n += 3) ++n_characters;
      ids.insert(ids.end(), std::max(n_characters, 1U), token.id);
    }
    EXPECT_EQ(ids, expected) << "round " << round;
  }
}

TEST(LongWords, UnknownCharactersJoinAcrossParts) {
  const auto tokenizer = tokenizer_of(kJoined);
  ASSERT_TRUE(tokenizer);
  std::string text = "a";
  for (int i = 0; i < 5000; ++i) text += "\u4F60";
  text += "aaa";
  const auto encoding = tokenizer->encode(text, {});
  ASSERT_TRUE(encoding.ok());
  EXPECT_EQ(encoding->ids, (std::vector<TokenId>{1, 0, 2, 1}));
  EXPECT_EQ(encoding->offsets[1].end, text.size() - 3);
}

TEST(LongWords, JoinedUnknownCharactersMerge) {
  const auto tokenizer = tokenizer_of(kJoinedMerge);
  ASSERT_TRUE(tokenizer);
  for (const int n_unknown : {1, 3, 4, 5, 5000}) {
    std::string unknown;
    for (int i = 0; i < n_unknown; ++i) unknown += "\u4F60";
    std::string text = "a";
    text.append(unknown).append("aaa'").append(unknown).append("aa").append(unknown);
    const auto encoding = tokenizer->encode(text, {});
    ASSERT_TRUE(encoding.ok());
    EXPECT_EQ(encoding->ids, (std::vector<TokenId>{1, 4, 2, 3, 4, 1, 0})) << n_unknown;
    EXPECT_EQ(encoding->offsets[1].end, 2 + unknown.size());
    EXPECT_EQ(encoding->offsets.back().begin, text.size() - unknown.size());
  }
}

TEST(Regexes, MatchesComeTheSameInParts) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += i % 7 == 0 ? " \u4F60" : i % 3 == 0 ? "ab " : "x";
  for (const char* pattern : {"x*", "a|x+|", " ?x", "(?<=b) |\\b", "$|^", "z"}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex.ok()) << pattern;
    const auto whole = regex->find_all(text);
    ASSERT_TRUE(whole.ok());
    std::vector<TextSpan> parts;
    std::size_t at = 0;
    do {
      const auto some = regex->find_some(text, 3, at);
      ASSERT_TRUE(some.ok());
      parts.insert(parts.end(), some->begin(), some->end());
    } while (at < text.size());
    ASSERT_EQ(parts.size(), whole->size()) << pattern;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(parts[i].begin, (*whole)[i].begin) << pattern;
      EXPECT_EQ(parts[i].end, (*whole)[i].end) << pattern;
    }
  }
}

TEST(TokenizerMemory, IdsAreTheSameWithoutOffsets) {
  const auto unigram = tokenizer_of(kUnigram);
  const auto pieces = tokenizer_of(kPieces);
  ASSERT_TRUE(unigram && pieces);
  EncodeOptions plain;
  plain.wants_offsets = false;
  for (const Tokenizer* tokenizer : {unigram.get(), pieces.get()}) {
    for (const std::string& text : {std::string(" a aa  7'"),
                                    std::string("aaa 77 'a'"),
                                    std::string("b\xC3 a"),
                                    std::string(),
                                    repeated("a a7 ")}) {
      const auto with = tokenizer->encode(text, {});
      const auto without = tokenizer->encode(text, plain);
      ASSERT_TRUE(with.ok() && without.ok());
      EXPECT_EQ(with->ids, without->ids) << text.substr(0, 20);
      EXPECT_EQ(with->offsets.size(), with->ids.size());
      EXPECT_TRUE(without->offsets.empty());
    }
  }
}

}  // namespace
}  // namespace coxswain::tokenizer
