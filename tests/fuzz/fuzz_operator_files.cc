// What operators bring: a file of --config, and commands and files of other servers, each read from the same bytes.

#include <string>
#include <string_view>
#include <vector>

#include "base/shell_words.h"
#include "base/utf8.h"
#include "fuzz/fuzz_input.h"
#include "migrate/input.h"
#include "migrate/turns.h"
#include "options/config_file.h"

namespace {

using coxswain::fuzz::require;
namespace base = coxswain::base;
namespace migrate = coxswain::migrate;
namespace options = coxswain::options;

// What is read is written as a file that is read to the same.
void check_config(std::string_view text) {
  const auto read = options::parse_config(text, "f");
  if (!read.ok()) {
    require(read.status().message().starts_with("f:"), "an error names the line");
    return;
  }
  std::string written;
  for (const auto& [name, entry] : read->entries) {
    require(!entry.texts.empty(), "a name has a value");
    require(entry.is_list || entry.texts.size() == 1, "what is no list is one value");
    written.append(name).append(":");
    for (const std::string& value : entry.texts) {
      require(base::is_utf8(value), "values are UTF-8");
      written.append(entry.is_list ? "\n - " : " ").append(options::config_scalar(value));
    }
    written += "\n";
  }
  const auto again = options::parse_config(written, "f");
  require(again.ok() && again->entries.size() == read->entries.size(), "what is written is read");
  for (const auto& [name, entry] : read->entries)
    require(again->entries.at(name).texts == entry.texts, "with the same values");
}

void check_values(std::string_view value) {
  for (const std::string& entry : migrate::entries_of(value))
    require(entry.size() <= 4 * value.size(), "entries are parts");
  const auto [host, port] = migrate::host_and_port(value);
  require(host.size() + port.size() <= value.size(), "an address is a part");
  migrate::count_of(value);
  migrate::bytes_of(value, 1073741824.0);
  migrate::model_of(value);
  migrate::guesses_of(value);
}

void check_migrated(std::string_view text) {
  const migrate::FindRule nobody = [](migrate::Program, std::string_view) { return nullptr; };
  const std::vector<std::string> words = base::shell_words(text);
  std::string line;
  for (const std::string& word : words) line += base::shell_quoted(word) + " ";
  require(base::shell_words(line) == words, "quoted words are read as they were");
  migrate::read_command(words, migrate::Program::kVllm, nobody);
  for (const auto& given :
       {migrate::read_modelfile(text), migrate::read_triton_config(text, nobody)})
    for (const migrate::Given& one : given)
      require(one.values.size() == 1, "a parameter has a value");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = coxswain::fuzz::Input(data, size).rest();
  check_config(text);
  check_migrated(text);
  check_values(text);
  return 0;
}
