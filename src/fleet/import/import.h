#pragma once
// What a BlitzScale set-up is with our programs: its deployment file, stub list and experiment template become command
// lines of text-generation-launcher, and what has no equivalent is named with the reason.
//
// Thread rule: values.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::fleet {

struct ImportNote {
  std::string what;
  std::string why;
};

struct Imported {
  // One for each model of a template; words, the program first.
  std::vector<std::vector<std::string>> commands = {};
  std::vector<ImportNote> without_equivalent = {};
};

struct ImportFile {
  std::string_view name;  // for messages
  std::string_view text;
};

// Files of one set-up, at most one of each kind, which shows in the content: a JSON object is a deployment, an array a
// stub list, all else a template. Errors: kInvalidArgument, which begins with the name of the file.
Result<Imported> import_setup(std::span<const ImportFile> files);

// Command lines, words quoted for a shell where they need it, then the notes.
std::string text_of(const Imported& imported);

}  // namespace coxswain::fleet
