// coxswain-bench-tokenizer: speed of one tokenizer over texts; kHelp says more.

#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <malloc.h>
#include <new>
#include <string>
#include <string_view>
#include <time.h>
#include <utility>
#include <vector>

#include "arguments.h"
#include "measures.h"

namespace {

// What all allocations hold now, and the most they held; of all threads, as loading frees in one
// what it got in another.
struct Heap {
  std::atomic<std::size_t> bytes{0};
  std::atomic<std::size_t> peak{0};
};

// Of the program: operator new can reach nothing else.
Heap& heap() {
  static constinit Heap all;
  return all;
}

}  // namespace

void* operator new(std::size_t n_bytes) {
  void* const out = std::malloc(n_bytes);
  if (out == nullptr) std::abort();
  const std::size_t now = heap().bytes += malloc_usable_size(out);
  if (now > heap().peak) heap().peak = now;  // exact where one thread allocates, as in encode()
  return out;
}
void operator delete(void* pointer) noexcept {
  heap().bytes -= malloc_usable_size(pointer);
  std::free(pointer);
}
void operator delete(void* pointer, std::size_t) noexcept {
  operator delete(pointer);
}

namespace coxswain::bench {
namespace {

using tokenizer::EncodeOptions;
using tokenizer::Tokenizer;

constexpr int kRounds = 5;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-tokenizer TOKENIZER TEXT...

Speed of one tokenizer: load, encode and decode of each text, and inputs made to be slow.

  TOKENIZER  a tokenizer.json, a SentencePiece model or a model folder
  TEXT       files to encode

Prints one JSON object a line. Encoding and decoding: one thread, the best of several rounds, the
first of which warms the caches. Loading, which may use a second thread: the median and the worst
of many, by the clock on the wall. For the inputs made to be slow also the most heap that an
encode call held at once, without and with offsets, the result included.

bench/tokenizer.py runs it beside the reference library on the same texts and prints the ratios.
)";

template <typename Run>
double best_seconds(int n_rounds, Run run) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < n_rounds; ++round) {
    const double start = thread_cpu_seconds();
    run();
    best = std::min(best, thread_cpu_seconds() - start);
  }
  return best;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

EncodeOptions plain() {
  EncodeOptions options;
  options.add_special_tokens = false;
  options.wants_offsets = false;
  return options;
}

void measure_text(const Tokenizer& tokenizer, const std::string& name, const std::string& text) {
  std::vector<TokenId> ids;
  const double encode_s = best_seconds(kRounds, [&] {
    auto encoding = tokenizer.encode(text, plain());
    if (encoding.ok()) ids = std::move(encoding->ids);
  });
  std::size_t decoded_bytes = 0;
  const double decode_s =
      best_seconds(kRounds, [&] { decoded_bytes = tokenizer.decode(ids, false).size(); });
  std::printf(
      "{\"text\": \"%s\", \"bytes\": %zu, \"tokens\": %zu, \"encode_s\": %.6f, \"decode_s\": %.6f, "
      "\"decoded_bytes\": %zu}\n",
      name.c_str(),
      text.size(),
      ids.size(),
      encode_s,
      decode_s,
      decoded_bytes);
}

std::string repeated(std::string_view unit) {
  constexpr std::size_t kBytes = 2'000'000;
  std::string out;
  while (out.size() < kBytes) out += unit;
  return out;
}

// Most bytes that one call held beyond what was held before it.
std::size_t peak_bytes(const Tokenizer& tokenizer, const std::string& text, bool wants_offsets) {
  EncodeOptions options = plain();
  options.wants_offsets = wants_offsets;
  const std::size_t before = heap().bytes;
  heap().peak = before;
  const auto encoding = tokenizer.encode(text, options);
  return encoding.ok() ? heap().peak - before : 0;
}

// The text of the first special token; empty if there is none.
std::string special_token(const Tokenizer& tokenizer) {
  for (TokenId id = 0; static_cast<std::size_t>(id) < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_special(id)) return tokenizer.token(id);
  }
  return {};
}

void measure_worst(const Tokenizer& tokenizer) {
  struct Case {
    const char* name;
    std::string_view unit;
  };
  const std::string special = special_token(tokenizer);
  for (const Case& hard : {Case{"letters", "a"},
                           Case{"blanks", " "},
                           Case{"digits", "7"},
                           Case{"apostrophes", "'"},
                           Case{"emoji", "\xF0\x9F\x98\x80"},
                           Case{"cjk", "\xE4\xBD\xA0"},
                           Case{"line breaks", "\n"},
                           Case{"random letters", "qzjxkvbwpfgh"},
                           Case{"letters and blanks", "a "},
                           Case{"letters with and without accents", "a\xC3\x80"},
                           Case{"special tokens", special}}) {
    if (hard.unit.empty()) continue;
    const std::string text = repeated(hard.unit);
    std::size_t n_tokens = 0;
    const double seconds = best_seconds(2, [&] {
      const auto encoding = tokenizer.encode(text, plain());
      n_tokens = encoding.ok() ? encoding->ids.size() : 0;
    });
    std::printf(
        "{\"worst\": \"%s\", \"bytes\": %zu, \"tokens\": %zu, \"encode_s\": %.6f, "
        "\"peak_bytes\": %zu, \"peak_bytes_with_offsets\": %zu}\n",
        hard.name,
        text.size(),
        n_tokens,
        seconds,
        peak_bytes(tokenizer, text, false),
        peak_bytes(tokenizer, text, true));
  }
}

// Loads many times and prints how long that took. nullptr if it cannot be loaded.
std::shared_ptr<const Tokenizer> measure_load(const std::string& path) {
  constexpr std::size_t kLoads = 30;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < kLoads; ++i) {
    const double start = seconds_of(CLOCK_MONOTONIC);
    const auto loaded = Tokenizer::load(path);
    seconds.push_back(seconds_of(CLOCK_MONOTONIC) - start);
    if (!loaded.ok()) {
      std::fprintf(stderr, "%s\n", loaded.status().message().c_str());
      return nullptr;
    }
    tokenizer = *loaded;
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("{\"load_s\": %.6f, \"load_worst_s\": %.6f, \"vocab_size\": %zu}\n",
              seconds[kLoads / 2],
              seconds.back(),
              tokenizer->vocab_size());
  return tokenizer;
}

int run(int argc, char** argv) {
  Arguments arguments(argc, argv, kHelp);
  const std::string path = arguments.required_word("TOKENIZER");
  std::vector<std::string> texts;
  while (auto text = arguments.word()) texts.push_back(*std::move(text));
  arguments.finish();
  const std::shared_ptr<const Tokenizer> tokenizer = measure_load(path);
  if (tokenizer == nullptr) return 1;
  for (const std::string& text : texts) measure_text(*tokenizer, text, read_file(text));
  measure_worst(*tokenizer);
  return 0;
}

}  // namespace
}  // namespace coxswain::bench

int main(int argc, char** argv) {
  return coxswain::bench::run(argc, argv);
}
