// Outputs that public pages show: what is read from them, for every cut.

#include <map>

#include <gtest/gtest.h>

#include "reply/testing/recorded_objects.h"
#include "reply/testing/recorded_others.h"

namespace coxswain::reply {
namespace {

using testing::RecordedPage;
using testing::RecordedText;

std::vector<RecordedPage> recorded_pages() {
  std::vector<RecordedPage> pages = testing::recorded_objects();
  for (RecordedPage& page : testing::recorded_others()) pages.push_back(std::move(page));
  return pages;
}

ParserSetup setup_for(const RecordedPage& page) {
  return {page.formats, testing::recorded_tools(), page.in_reasoning};
}

TEST(ReplyRecorded, ComesOutTheSameForEveryCut) {
  for (const RecordedPage& page : recorded_pages()) {
    for (const RecordedText& one : page.texts) {
      std::optional<long> differs;
      const auto parts =
          testing::parts_at_every_cut(setup_for(page), {{std::string(one.text), false}}, differs);
      EXPECT_FALSE(differs) << page.page << " cut at " << *differs << ": " << one.text;
      EXPECT_EQ(testing::gathered(parts), one.reply) << page.page << ": " << one.text;
    }
  }
}

// Tokenizers of these models have single tokens for most frames, which come spelled and marked.
TEST(ReplyRecorded, SpecialTokensAreReadAsTheirText) {
  const std::vector<std::string> special = {"<tool_call>",
                                            "</tool_call>",
                                            "<think>",
                                            "</think>",
                                            "[TOOL_CALLS]",
                                            "[THINK]",
                                            "[/THINK]",
                                            "<|tool_call|>",
                                            "<|/tool_call|>",
                                            "<|python_tag|>",
                                            "<|python_start|>",
                                            "<|python_end|>",
                                            "<｜tool▁calls▁begin｜>",
                                            "<｜tool▁call▁begin｜>",
                                            "<｜tool▁sep｜>",
                                            "<｜tool▁call▁end｜>",
                                            "<｜tool▁calls▁end｜>",
                                            "<|tool_calls_section_begin|>",
                                            "<|tool_calls_section_end|>",
                                            "<|tool_call_begin|>",
                                            "<|tool_call_argument_begin|>",
                                            "<|tool_call_end|>",
                                            "<|START_THINKING|>",
                                            "<|END_THINKING|>",
                                            "<|START_ACTION|>",
                                            "<|END_ACTION|>",
                                            "<|START_RESPONSE|>",
                                            "<|END_RESPONSE|>",
                                            "<|START_TEXT|>",
                                            "<|END_TEXT|>",
                                            "<start_function_call>",
                                            "<end_function_call>",
                                            "<escape>",
                                            "<|tool_call>",
                                            "<tool_call|>",
                                            "<|\"|>",
                                            "<|channel>",
                                            "<channel|>",
                                            "<arg_key>",
                                            "</arg_key>",
                                            "<arg_value>",
                                            "</arg_value>",
                                            "<|start|>",
                                            "<|channel|>",
                                            "<|message|>",
                                            "<|constrain|>",
                                            "<|end|>",
                                            "<|call|>",
                                            "<|return|>"};
  for (const RecordedPage& page : recorded_pages()) {
    for (const RecordedText& one : page.texts) {
      const auto parts = testing::parts_of(setup_for(page), testing::pieces_of(one.text, special));
      EXPECT_EQ(testing::gathered(parts), one.reply) << page.page << ": " << one.text;
    }
  }
}

TEST(ReplyRecorded, EveryFormatHasFive) {
  std::map<ToolFormat, std::size_t> n_texts;
  for (const RecordedPage& page : recorded_pages()) {
    ToolFormat format = page.formats.tools;
    if (format == ToolFormat::kDeepSeekV31) format = ToolFormat::kDeepSeekV3;  // one reader
    n_texts[format] += page.texts.size();
  }
  for (int i = static_cast<int>(ToolFormat::kHermes); i <= static_cast<int>(ToolFormat::kCohere);
       ++i) {
    const auto format = static_cast<ToolFormat>(i);
    if (format == ToolFormat::kDeepSeekV31) continue;
    EXPECT_GE(n_texts[format], 5U) << name_of(format);
  }
}

// Cut short anywhere, an output is read to its end: what no call or thought has taken is text.
TEST(ReplyRecorded, EveryBeginningIsRead) {
  for (const RecordedPage& page : recorded_pages()) {
    for (const RecordedText& one : page.texts) {
      for (std::size_t size = 0; size < one.text.size(); ++size) {
        const std::string beginning(one.text.substr(0, size));
        const auto whole = testing::parts_of(setup_for(page), {{beginning, false}});
        std::vector<testing::Piece> bytes;
        bytes.reserve(size);
        for (const char c : beginning) bytes.push_back({std::string(1, c), false});
        EXPECT_EQ(testing::parts_of(setup_for(page), bytes), whole) << page.page << beginning;
        const testing::Reply reply = testing::gathered(whole);
        EXPECT_LE(reply.calls.size(), one.reply.calls.size()) << page.page << beginning;
      }
    }
  }
}

}  // namespace
}  // namespace coxswain::reply
