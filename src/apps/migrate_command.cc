#include "apps/migrate_command.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "migrate/migrate.h"

namespace coxswain::apps {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;

// "-" is stdin.
Result<std::string> text_of_file(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  std::string text(kFileBytesMax + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if ((path != "-" && !file.is_open()) || in.bad())
    return Status(Code::kNotFound, path + " cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kFileBytesMax) {
    return Status(Code::kNotFound,
                  path + " must have at most " + std::to_string(kFileBytesMax) + " bytes");
  }
  return text;
}

}  // namespace

Status migrate_words(std::span<const std::string_view> words) {
  std::optional<migrate::Program> from;
  std::optional<std::string> file;
  std::size_t i = 0;
  for (; i < words.size() && words[i].starts_with("--") && words[i] != "--"; i += 2) {
    const bool is_ours = words[i] == "--from" || words[i] == "--file";
    if (!is_ours || i + 1 == words.size())
      return invalid_argument("migrate does not understand `" + std::string(words[i]) +
                              "`; the command stands behind --");
    if (words[i] == "--file") {
      file = words[i + 1];
      continue;
    }
    from = migrate::program_of(words[i + 1]);
    if (!from) return invalid_argument("--from does not know `" + std::string(words[i + 1]) + "`");
  }
  if (i < words.size() && words[i] == "--") ++i;
  const std::vector<std::string> command(words.begin() + static_cast<std::ptrdiff_t>(i),
                                         words.end());
  if (command.empty() == !file.has_value())
    return invalid_argument("migrate needs -- COMMAND LINE... or --file FILE");
  if (!file) {
    COXSWAIN_ASSIGN_OR_RETURN(const auto made, migrate::migrate_command(command, from));
    std::fputs(migrate::text_of(made).c_str(), stdout);
    return {};
  }
  COXSWAIN_ASSIGN_OR_RETURN(const std::string text, text_of_file(*file));
  COXSWAIN_ASSIGN_OR_RETURN(const auto made, migrate::migrate_text(text, from));
  std::fputs(migrate::text_of(made).c_str(), stdout);
  return {};
}

}  // namespace coxswain::apps
