// Speed of one tokenizer over texts: load, encode, decode, and inputs made to be slow.
//
//   coxswain-bench-tokenizer TOKENIZER TEXT...
//
// For the inputs made to be slow it also prints the most heap that an encode call held at once,
// without and with offsets, the result included. Prints one JSON object a line. bench/tokenizer.py
// runs it beside the reference library on the same texts and prints the ratios. One thread; the
// best of several rounds, the first of which warms the caches.

#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <malloc.h>
#include <new>
#include <span>
#include <string>
#include <time.h>

namespace {

// What this thread's allocations hold now, and the most they held. Globals, as operator new can
// reach nothing else.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
thread_local std::size_t heap_bytes = 0;
thread_local std::size_t heap_peak = 0;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

void* operator new(std::size_t n_bytes) {
  void* const out = std::malloc(n_bytes);
  if (out == nullptr) std::abort();
  heap_bytes += malloc_usable_size(out);
  heap_peak = std::max(heap_peak, heap_bytes);
  return out;
}
void operator delete(void* pointer) noexcept {
  heap_bytes -= malloc_usable_size(pointer);
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

// Of this thread alone: other load on the machine does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <typename Run>
double best_seconds(int n_rounds, Run run) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < n_rounds; ++round) {
    const double start = cpu_seconds();
    run();
    best = std::min(best, cpu_seconds() - start);
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
  const std::size_t before = heap_bytes;
  heap_peak = heap_bytes;
  const auto encoding = tokenizer.encode(text, options);
  return encoding.ok() ? heap_peak - before : 0;
}

void measure_worst(const Tokenizer& tokenizer) {
  struct Case {
    const char* name;
    std::string_view unit;
  };
  for (const Case& hard : {Case{"letters", "a"},
                           Case{"blanks", " "},
                           Case{"digits", "7"},
                           Case{"apostrophes", "'"},
                           Case{"emoji", "\xF0\x9F\x98\x80"},
                           Case{"cjk", "\xE4\xBD\xA0"},
                           Case{"line breaks", "\n"},
                           Case{"random letters", "qzjxkvbwpfgh"}}) {
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

int run(std::span<char*> args) {
  if (args.empty()) {
    std::fputs("usage: coxswain-bench-tokenizer TOKENIZER TEXT...\n", stderr);
    return 2;
  }
  const std::string path = args[0];
  std::shared_ptr<const Tokenizer> tokenizer;
  const double load_s = best_seconds(3, [&] {
    const auto loaded = Tokenizer::load(path);
    if (!loaded.ok()) std::fprintf(stderr, "%s\n", loaded.status().message().c_str());
    tokenizer = loaded.ok() ? *loaded : nullptr;
  });
  if (tokenizer == nullptr) return 1;
  std::printf("{\"load_s\": %.6f, \"vocab_size\": %zu}\n", load_s, tokenizer->vocab_size());
  for (char* text : args.subspan(1)) measure_text(*tokenizer, text, read_file(text));
  measure_worst(*tokenizer);
  return 0;
}

}  // namespace
}  // namespace coxswain::bench

int main(int argc, char** argv) {
  return coxswain::bench::run(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
}
