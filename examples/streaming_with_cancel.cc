// Streams an answer, stops another one on the way, and gives a third one only so much time.
//
//     streaming_with_cancel MODEL_FOLDER
#include <chrono>
#include <iostream>
#include <string>
#include <utility>

#include <coxswain/executor.h>
#include <coxswain/local_model.h>

using namespace std::chrono_literals;

namespace {

coxswain::Result<coxswain::RequestId> ask(const coxswain::LocalModel& model,
                                          coxswain::Executor& engine,
                                          const std::string& question,
                                          coxswain::Clock::duration time = 60s) {
  COXSWAIN_ASSIGN_OR_RETURN(coxswain::Prompt prompt, model.chat({{"user", question}}));
  coxswain::Request request;
  request.prompt = std::move(prompt);
  request.stopping.max_new_tokens = 64;
  request.deadline = coxswain::Clock::now() + time;
  return engine.enqueue(std::move(request));
}

// Prints pieces as they come; after `pieces_max` of them it wants no more.
coxswain::Status print(coxswain::Executor& engine, coxswain::RequestId id, int pieces_max) {
  for (int n = 1;; ++n) {
    const coxswain::Response piece = engine.await(id);
    std::cout << piece.text << std::flush;
    if (piece.final) {
      std::cout << '\n';
      return piece.status;
    }
    if (n == pieces_max) engine.cancel(id);  // the final response says kCancelled
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto model = coxswain::open_model(argv[1]);
  if (!model.ok()) {
    std::cerr << model.status().message() << '\n';
    return 1;
  }
  coxswain::Executor engine(*model);
  auto whole = ask(*model, engine, "What is 12 + 30?");
  auto part = ask(*model, engine, "Who are you?");
  auto late = ask(*model, engine, "Who are you?", 0s);
  if (!whole.ok() || !part.ok() || !late.ok()) {
    std::cerr << whole.status().message() << part.status().message() << late.status().message()
              << '\n';
    return 1;
  }
  // All three are computed together, whichever is read first.
  const bool answered = print(engine, *whole, 1000).ok();
  std::cout << print(engine, *part, 1).message() << '\n';
  std::cout << print(engine, *late, 1000).message() << '\n';
  return answered ? 0 : 1;
}
