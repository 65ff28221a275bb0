#include "apps/program.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

#include "serve/model_source.h"

namespace coxswain::apps {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::string_view kLauncher = "text-generation-launcher";

// The launcher's words: a first one that is no option is the model.
Words launcher_words(std::span<const std::string_view> words) {
  Words out(words.begin(), words.end());
  if (!out.empty() && !out.front().starts_with('-')) out.insert(out.begin(), "--model-id");
  return out;
}

}  // namespace

int become(std::string_view program, std::span<const std::string_view> words) {
  const std::string path = serve::program_folder() + "/" + std::string(program);
  std::vector<std::string> all{path};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  argv.reserve(all.size() + 1);
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(path.c_str(), argv.data());
  std::fprintf(stderr, "coxswain: %s cannot be started: %s\n", path.c_str(), std::strerror(errno));
  return 1;
}

int serve_model(std::span<const std::string_view> words) {
  Words all = launcher_words(words);
  if (std::ranges::none_of(all, [](auto word) { return word.starts_with("--hostname"); }))
    all.insert(all.end(), {"--hostname", "127.0.0.1"});
  constexpr int kIfUnset = 0;
  setenv("LOG_LEVEL", "warn", kIfUnset);
  return become(kLauncher, all);
}

int plan_model(std::span<const std::string_view> words) {
  Words all = launcher_words(words);
  all.emplace_back("--plan");
  return become(kLauncher, all);
}

}  // namespace coxswain::apps
