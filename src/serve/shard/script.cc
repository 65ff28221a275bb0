#include "serve/shard/script.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "json/json.h"

namespace coxswain::serve {
namespace {

// Above every score of a model, and far enough to stay so whatever penalties and biases do.
constexpr float kScore = 1e4F;

struct Entry {
  std::string after;
  std::vector<TokenId> answer = {};
};

class Script final : public LogitsProcessor {
 public:
  Script(std::vector<Entry> entries, std::shared_ptr<const TextCodec> codec)
      : entries_(std::move(entries)), codec_(std::move(codec)) {}

  Status process(const LogitsInput& input, std::span<float> logits) override {
    const std::vector<TokenId>* answer = find(codec_->decode(input.prompt, false));
    if (answer == nullptr) return {};
    const auto [said, next] =
        std::mismatch(input.output.begin(), input.output.end(), answer->begin(), answer->end());
    if (said != input.output.end() || next == answer->end()) return {};
    logits[static_cast<std::size_t>(*next)] = kScore;
    return {};
  }

 private:
  const std::vector<TokenId>* find(const std::string& prompt) const {
    const std::vector<TokenId>* answer = nullptr;
    std::size_t last = 0;
    for (const Entry& entry : entries_) {
      const std::size_t at = prompt.rfind(entry.after);
      if (at == std::string::npos || (answer != nullptr && at <= last)) continue;
      answer = &entry.answer;
      last = at;
    }
    return answer;
  }

  std::vector<Entry> entries_;
  std::shared_ptr<const TextCodec> codec_;
};

Result<Entry> read_entry(const json::Value& value, const TextCodec& codec) {
  const json::Value* after = value.find("after");
  const json::Value* answer = value.find("answer");
  if (after == nullptr || !after->is_string() || answer == nullptr || !answer->is_string())
    return invalid_argument("`after` and `answer` must be texts");
  Entry out{.after = after->as_string()};
  COXSWAIN_ASSIGN_OR_RETURN(out.answer, codec.encode(answer->as_string(), false));
  return out;
}

}  // namespace

Result<std::shared_ptr<LogitsProcessor>> load_script(const std::string& path,
                                                     std::shared_ptr<const TextCodec> codec) {
  const std::string context = "`--script` " + path;
  std::ifstream file(path);
  if (!file) return Status(Code::kNotFound, context + " cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto document = json::parse(text);
  if (!document.ok()) return document.status().with_context(context);
  if (!document->is_array()) return invalid_argument(context + ": must be an array");
  std::vector<Entry> entries;
  for (const json::Value& value : document->as_array()) {
    auto entry = read_entry(value, *codec);
    if (!entry.ok())
      return entry.status().with_context(context + ": entry " + std::to_string(entries.size()));
    entries.push_back(std::move(entry).value());
  }
  return std::shared_ptr<LogitsProcessor>(
      std::make_shared<Script>(std::move(entries), std::move(codec)));
}

}  // namespace coxswain::serve
