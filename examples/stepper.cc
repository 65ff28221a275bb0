// A program with one thread and a loop of its own: requests come in while others are computed, each turn of the loop
// computes one step for all of them.
//
//     stepper MODEL_FOLDER
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/local_model.h>
#include <coxswain/stepper.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto model = coxswain::open_model(argv[1]);
  if (!model.ok()) {
    std::cerr << model.status().message() << '\n';
    return 1;
  }
  std::vector<std::string> questions = {"Who are you?", "What is 5 + 6?", "What is 12 + 30?"};
  std::map<coxswain::RequestId, std::string> answers;
  coxswain::Stepper engine(*model);
  int n_steps = 0;
  for (std::size_t next = 0; next < questions.size() || !engine.idle(); ++n_steps) {
    if (next < questions.size()) {  // what the program's own loop has found to do
      auto prompt = model->chat({{"user", questions[next++]}});
      if (!prompt.ok()) return 1;
      coxswain::Request request;
      request.prompt = std::move(prompt).value();
      request.stopping.max_new_tokens = 64;
      if (auto id = engine.add(std::move(request)); !id.ok()) {
        std::cerr << id.status().message() << '\n';
        return 1;
      }
    }
    for (const coxswain::Response& piece : engine.step()) {
      answers[piece.id] += piece.text;
      if (piece.final && !piece.status.ok()) std::cerr << piece.status.message() << '\n';
    }
  }
  for (const auto& [id, text] : answers) std::cout << text << '\n';
  std::cerr << n_steps << " steps\n";
  return 0;
}
