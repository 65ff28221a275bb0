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
#include "tokenizer/pipeline.h"

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

std::string repeated(std::string_view unit) {
  std::string out;
  while (out.size() < kTextBytes) out += unit;
  return out;
}

std::size_t peak_of(const Tokenizer& tokenizer, const std::string& text) {
  EncodeOptions options;
  options.wants_offsets = false;
  EXPECT_TRUE(tokenizer.encode("a7", options).ok());  // makes the cache of words, of fixed size
  const std::size_t before = heap_bytes;
  heap_peak = heap_bytes;
  const auto encoding = tokenizer.encode(text, options);
  EXPECT_TRUE(encoding.ok());
  return heap_peak - before;
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

TEST(TokenizerMemory, ALongRunTakesLessThanTenTimesItsBytes) {
  const auto unigram = tokenizer_of(kUnigram);
  const auto pieces = tokenizer_of(kPieces);
  ASSERT_TRUE(unigram && pieces);
  for (const char* unit : {"a", "7", " ", "'"}) {
    EXPECT_LT(peak_of(*unigram, repeated(unit)), 10 * kTextBytes) << "Unigram: " << unit;
  }
  for (const char* unit : {"7", "'", "a"}) {
    EXPECT_LT(peak_of(*pieces, repeated(unit)), 10 * kTextBytes) << "pieces: " << unit;
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
