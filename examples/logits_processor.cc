// A program's own hand in how tokens are chosen: a processor that takes the digits out of an answer. The request beside
// it, which does not ask for the processor, has its answer as always.
//
//     logits_processor MODEL_FOLDER
#include <algorithm>
#include <iostream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <coxswain/logits_processor.h>

using namespace coxswain;

namespace {

bool has_digit(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Called by several threads at once: it only reads once requests run.
class NoDigits final : public LogitsProcessor {
 public:
  void learn(const LocalModel& model) {
    const auto codec = model.codec();
    const auto n = static_cast<TokenId>(model.info().vocab_size);
    for (TokenId id = 0; id < n; ++id) {
      if (has_digit(codec->token_text(id))) forbidden_.push_back(id);
    }
  }
  Status process(const LogitsInput&, std::span<float> logits) override {
    for (const TokenId id : forbidden_)
      logits[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
    return {};
  }

 private:
  std::vector<TokenId> forbidden_;
};

Result<std::string> ask(const LocalModel& model, Executor& engine, const std::string& processor) {
  Request request;
  COXSWAIN_ASSIGN_OR_RETURN(request.prompt, model.chat({{"user", "What is 12 + 30?"}}));
  request.stopping.max_new_tokens = 32;
  request.sampling.logits_processor = processor;  // empty = none
  COXSWAIN_ASSIGN_OR_RETURN(const RequestId id, engine.enqueue(std::move(request)));
  std::string answer;
  for (;;) {
    const Response piece = engine.await(id);
    answer += piece.text;
    if (!piece.final) continue;
    COXSWAIN_RETURN_IF_ERROR(piece.status);
    return answer;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto no_digits = std::make_shared<NoDigits>();
  LocalModelOptions options;
  options.logits_processors["no_digits"] = no_digits;
  auto model = open_model(argv[1], options);
  if (!model.ok()) {
    std::cerr << model.status().message() << '\n';
    return 1;
  }
  no_digits->learn(*model);
  Executor engine(*model);
  const auto without = ask(*model, engine, "no_digits");
  const auto with = ask(*model, engine, "");
  if (!without.ok() || !with.ok()) {
    std::cerr << without.status().message() << with.status().message() << '\n';
    return 1;
  }
  std::cout << "without digits: " << *without << "\nas always: " << *with << '\n';
  return has_digit(*without) ? 1 : 0;
}
