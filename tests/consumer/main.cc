// What users write first: it compiles as it stands.
// clang-format off
#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <iostream>
int main(int, char** argv) {
  auto model = coxswain::open_model(argv[1]);                       // Result<LocalModel>
  if (!model.ok()) { std::cerr << model.status().message() << '\n'; return 1; }
  coxswain::Executor engine(*model);                                // ExecutorOptions has a default for everything
  coxswain::Request request;
  auto prompt = model->chat({{"user", "What is 12 + 30?"}});        // Result<Prompt>: ids and spans
  request.prompt = prompt.value();
  request.stopping.max_new_tokens = 64;
  auto id = engine.enqueue(std::move(request));                     // Result<RequestId>; full, too long, bad field: by name
  if (!id.ok()) { std::cerr << id.status().message() << '\n'; return 1; }
  for (;;) {
    coxswain::Response piece = engine.await(id.value());            // blocks; an overload takes a timeout
    std::cout << piece.text << std::flush;
    if (piece.final) return piece.status.ok() ? 0 : 1;
  }
}
