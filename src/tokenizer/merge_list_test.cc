// Lists of merges long enough to be read in halves, and where sections of a file end.

#include "tokenizer/merge_list.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tokenizer/bulk_json.h"

namespace coxswain::tokenizer {
namespace {

using Pair = std::pair<std::string, std::string>;

// All words of up to three letters, and what looks like JSON.
struct Vocabulary {
  TokenTable names;
  std::vector<Pair> merges;
};

Vocabulary vocabulary() {
  Vocabulary out;
  TokenId next = 0;
  const auto add = [&](const std::string& token) { out.names.add(token, next++); };
  const std::vector<Pair> confusing{{"\"", ","}, {",", "\""}, {"],", "["}, {"\\", "\""}};
  for (const char* token : {"\"", ",", "],", "[", "\\"}) add(token);
  for (const auto& [left, right] : confusing) add(left + right);
  std::vector<std::string> letters;
  for (char c = 'a'; c <= 'z'; ++c) letters.emplace_back(1, c);
  for (const std::string& one : letters) add(one);
  for (const std::string& first : letters) {
    for (const std::string& second : letters) {
      add(first + second);
      out.merges.emplace_back(first, second);
    }
  }
  for (const std::string& first : letters) {
    for (const std::string& second : letters) {
      for (const std::string& third : letters) {
        std::string word = first + second;
        add(word += third);
        out.merges.emplace_back(first, second + third);
        out.merges.emplace_back(first + second, third);
      }
    }
    out.merges.insert(out.merges.end(), confusing.begin(), confusing.end());
  }
  return out;
}

std::string as_json(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out + "\"";
}

enum class Style { kCompact, kIndented };

std::string list_of(const std::vector<Pair>& merges, bool as_pairs, Style style) {
  const std::string gap = style == Style::kCompact ? "" : "\n      ";
  std::string out = "[";
  for (const auto& [left, right] : merges) {
    if (out.size() > 1) out += ",";
    out += gap;
    if (as_pairs) {
      out.append("[").append(gap).append(as_json(left)).append(",").append(gap);
      out.append(as_json(right)).append(gap).append("]");
    } else {
      std::string merge = left + " ";
      out += as_json(merge += right);
    }
  }
  return out + "]";
}

TEST(MergeLists, HalvesMakeTheSameTable) {
  const Vocabulary known = vocabulary();
  for (const bool as_pairs : {false, true}) {
    for (const Style style : {Style::kCompact, Style::kIndented}) {
      const std::string list = list_of(known.merges, as_pairs, style);
      const auto table = read_merges(list, known.names);
      ASSERT_TRUE(table.ok()) << table.status().message();
      std::size_t n_found = 0;
      for (std::uint32_t rank = 0; rank < known.merges.size(); ++rank) {
        const auto& [left, right] = known.merges[rank];
        const MergeTable::Entry* entry =
            table->find(*known.names.find(left), *known.names.find(right));
        ASSERT_NE(entry, nullptr) << left << " " << right;
        EXPECT_EQ(entry->id, *known.names.find(left + right));
        EXPECT_GE(entry->rank, rank) << "the last of two counts";
        if (entry->rank == rank) ++n_found;
      }
      EXPECT_EQ(n_found, table->size());
    }
  }
}

TEST(MergeLists, ErrorsAreThoseOfTheFirstBadEntry) {
  const Vocabulary known = vocabulary();
  const auto error_of = [&](const std::vector<Pair>& merges) {
    const auto table = read_merges(list_of(merges, false, Style::kIndented), known.names);
    return table.ok() ? std::string() : table.status().message();
  };
  std::vector<Pair> merges = known.merges;
  const std::size_t late = merges.size() - 10;
  merges[late].first = "!";
  EXPECT_EQ(error_of(merges),
            "[" + std::to_string(late) + "]: the token \"!\" is not in the vocabulary");
  merges[100].second = "?";
  EXPECT_EQ(error_of(merges), "[100]: the token \"?\" is not in the vocabulary");
  merges[90].second = "a b";
  EXPECT_EQ(error_of(merges), "[90]: not a pair of tokens");

  std::string cut = list_of(known.merges, false, Style::kCompact);
  cut.pop_back();
  const auto unfinished = read_merges(cut, known.names);
  ASSERT_FALSE(unfinished.ok());
  EXPECT_EQ(
      unfinished.status().message(),
      "the list cannot be read: JSON document ended early in the middle of an object or array.");
}

TEST(BulkSections, EndWhereTheirBracketsClose) {
  std::mt19937 random(5);
  static constexpr std::string_view kCharacters = "ab {}[],:\"\\\xC3\xA9";
  for (int round = 0; round < 300; ++round) {
    std::string vocab = "{";
    const int n_tokens = static_cast<int>(random() % 60);
    for (int id = 0; id < n_tokens; ++id) {
      std::string token;
      for (std::size_t n = random() % 12; n > 0; --n)
        token.push_back(kCharacters[random() % (kCharacters.size() - 2)]);
      if (random() % 4 == 0) token += "\xC3\xA9";
      vocab += (id == 0 ? "" : ",") + as_json(token) + ":" + std::to_string(id);
      if (random() % 8 == 0) vocab += std::string(random() % 70, ' ');
    }
    vocab += "}";
    const std::string merges = R"([["a","]"],["{","\\"]])";
    std::string text = R"({"x":"{[\"","model":{"vocab":)";
    text.append(vocab).append(R"(,"merges":)").append(merges).append(R"(,"y":"}"},"z":[]})");
    const BulkSections found = cut_bulk_sections(text);
    EXPECT_EQ(found.vocab, vocab);
    EXPECT_EQ(found.merges, merges);
    EXPECT_EQ(found.rest, R"({"x":"{[\"","model":{"vocab":{},"merges":[],"y":"}"},"z":[]})");
  }
}

// What simdjson must not be asked: to go back over a section that was skipped and is no JSON.
TEST(BulkSections, BrokenSectionsAreRefusedByTheirReaders) {
  for (const char* vocab : {R"({"a":,0:"b"1,"c":2})",
                            R"({"a"})",
                            R"({:})",
                            R"({"a":[})",
                            "{]",
                            "[}",
                            "",
                            " ",
                            "{",
                            "1",
                            "\"",
                            "\xFF"}) {
    const std::string text =
        R"({"model":{"type":"BPE","vocab":)" + std::string(vocab) + R"(,"x":1}})";
    const BulkSections found = cut_bulk_sections(text);
    EXPECT_TRUE(found.merges.empty()) << vocab;
    const auto ignore = [](std::size_t) {};
    const auto take = [](std::string_view, std::int64_t) { return Status(); };
    EXPECT_FALSE(read_vocab_object(found.vocab, ignore, take).ok()) << vocab;
    EXPECT_FALSE(read_vocab_object(vocab, ignore, take).ok()) << vocab;
  }
}

}  // namespace
}  // namespace coxswain::tokenizer
