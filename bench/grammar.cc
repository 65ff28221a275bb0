// coxswain-bench-grammar: what a grammar costs: compiling it, and its mask at each token of an answer; kHelp says more.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.h"
#include "grammar/compiler.h"
#include "grammar/token_masks.h"
#include "json/json.h"
#include "measures.h"
#include "require.h"

namespace coxswain::bench {
namespace {

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-grammar VOCABULARY CASES

Cost of grammars: of compiling a schema, and of the mask of the tokens that may follow at each token of an answer.

  VOCABULARY  a line for each id: the bytes of its token in hexadecimal; empty for tokens that no text may spell
  CASES       a JSON object a line: {"schema": ..., "answers": [[id, ...], ...]}

One thread, its time on the processor, every schema compiled anew with no mask known. Prints one JSON object a line: the median, the
99th percentile and the largest time of each kind in microseconds, and how many schemas and answers were taken.

bench/grammar.py writes both files, runs this and other engines on them, and prints the ratios.
)";

double microseconds_since(double begin) {
  return 1e6 * thread_cpu_seconds() - begin;
}

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream in(path);
  if (!in) die({Code::kNotFound, "cannot read " + path});
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(std::move(line));
  return out;
}

std::string from_hex(std::string_view digits) {
  std::string out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  return out;
}

void print(std::string_view what, std::vector<double> times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
  };
  std::printf("{\"what\": \"%.*s\", \"n\": %zu, \"p50\": %.2f, \"p99\": %.2f, \"max\": %.2f}\n",
              static_cast<int>(what.size()),
              what.data(),
              times.size(),
              at(0.5),
              at(0.99),
              times.back());
}

int run(int argc, char** argv) {
  Arguments arguments(argc, argv, kHelp);
  const std::string vocabulary = arguments.required_word("VOCABULARY");
  const std::string cases = arguments.required_word("CASES");
  arguments.finish();

  std::vector<std::string> tokens = read_lines(vocabulary);
  for (std::string& token : tokens) token = from_hex(token);
  const auto trie = std::make_shared<const grammar::TokenTrie>(
      tokens.size(), [&](TokenId id) { return tokens[static_cast<std::size_t>(id)]; });

  std::vector<double> compile_times;
  std::vector<double> mask_times;
  std::vector<double> token_times;
  std::size_t n_schemas = 0;
  std::size_t n_refused = 0;
  std::size_t n_answers = 0;
  std::size_t n_followed = 0;
  for (const std::string& line : read_lines(cases)) {
    const json::Value one = require(json::parse(line));
    ++n_schemas;
    grammar::Source source{.text = json::write(*one.find("schema"))};
    const auto begin = 1e6 * thread_cpu_seconds();
    auto program = grammar::compile(source);
    const double compile_time = microseconds_since(begin);
    if (!program.ok()) {
      ++n_refused;
      continue;
    }
    compile_times.push_back(compile_time);
    const grammar::TokenMasks masks(std::move(program.value()), trie);
    for (const json::Value& answer : one.find("answers")->as_array()) {
      ++n_answers;
      auto position = masks.begin();
      bool follows = true;
      for (const json::Value& id : answer.as_array()) {
        const auto asked = 1e6 * thread_cpu_seconds();
        const auto mask = masks.mask(position);
        mask_times.push_back(microseconds_since(asked));
        if (!mask.ok()) die(mask.status());
        follows = masks.advance(position, static_cast<TokenId>(*id.to_int64()));
        token_times.push_back(microseconds_since(asked));
        if (!follows) break;
      }
      n_followed += follows && masks.is_whole(position) ? 1 : 0;
    }
  }
  print("compile", std::move(compile_times));
  print("mask", std::move(mask_times));
  print("mask and advance", std::move(token_times));
  std::printf(
      "{\"what\": \"taken\", \"schemas\": %zu, \"refused\": %zu, \"answers\": %zu, \"followed\": "
      "%zu}\n",
      n_schemas,
      n_refused,
      n_answers,
      n_followed);
  return 0;
}

}  // namespace
}  // namespace coxswain::bench

int main(int argc, char** argv) {
  return coxswain::bench::run(argc, argv);
}
