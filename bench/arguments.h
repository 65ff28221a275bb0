#pragma once
// Arguments of a benchmark: words, and options as `--name VALUE` or `--name=VALUE`, each taken by the code
// that needs it.
//
// --help prints the text of the program and ends it with 0. What nobody took, lacks its value or does not fit
// ends it with 2 and a line that says so. Thread rule: one thread.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::bench {

class Arguments {
 public:
  // `help` starts with "usage: "; it outlives this.
  Arguments(int argc, char** argv, std::string_view help);

  // The value of --name; empty if it was not given. `name` without dashes.
  std::optional<std::string> option(std::string_view name);
  std::string text(std::string_view name, std::string otherwise = {});
  std::string one_of(std::string_view name,
                     std::initializer_list<std::string_view> values,
                     std::string otherwise);
  // A whole number of at least 1.
  std::uint32_t count(std::string_view name, std::uint32_t otherwise);

  // The next word; empty if there is none. Words are taken behind the options.
  std::optional<std::string> word();
  std::string required_word(std::string_view what);
  std::uint32_t count_word(std::string_view what, std::uint32_t otherwise);

  // REQUIRES: everything that the program knows has been taken.
  void finish() const;

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  std::uint32_t to_count(std::string_view what, const std::string& text) const;

  std::string_view help_;
  std::map<std::string, std::string, std::less<>> options_;
  std::vector<std::string> words_;
  std::size_t next_word_ = 0;
};

}  // namespace coxswain::bench
