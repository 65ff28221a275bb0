#include "coxswain/generate.h"

#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include "batch/sequence_outputs.h"
#include "library/engine_request.h"

namespace coxswain {
namespace {

void append(Response& whole, Response piece) {
  whole.text += piece.text;
  whole.tokens.insert(whole.tokens.end(),
                      std::make_move_iterator(piece.tokens.begin()),
                      std::make_move_iterator(piece.tokens.end()));
  if (!piece.prompt.empty()) whole.prompt = std::move(piece.prompt);
  batch::append_outputs(std::move(piece.outputs), whole.outputs);
  whole.final = piece.final;
  whole.status = std::move(piece.status);
  whole.finish = piece.finish;
  whole.usage = piece.usage;
  whole.cumulative_logprob = piece.cumulative_logprob;
}

// Why on_piece wants no more, if it does not.
Status ask(const OnPiece& on_piece, const Response& piece) {
  std::string why = "the callback returned false";
  try {
    if (on_piece(piece)) return {};
  } catch (const std::exception& e) {
    why = std::string("the callback threw: ") + e.what();
  } catch (...) {
    why = "the callback threw";
  }
  return {Code::kCancelled, std::move(why)};
}

}  // namespace

Response stream(Executor& engine, Request request, const OnPiece& on_piece) {
  Response whole;
  const Status one = library::require_one_answer(request);
  const Result<RequestId> id =
      one.ok() ? engine.enqueue(std::move(request)) : Result<RequestId>(one);
  if (!id.ok()) {
    whole.final = true;
    whole.status = id.status();
    return whole;
  }
  whole.id = id.value();
  Status ended;
  while (!whole.final) {
    Response piece = engine.await(id.value());
    if (on_piece && ended.ok()) {
      ended = ask(on_piece, piece);
      if (!ended.ok()) engine.cancel(id.value());
    }
    append(whole, std::move(piece));
  }
  if (!ended.ok()) {
    whole.status = std::move(ended);
    whole.finish.reset();
  }
  return whole;
}

Response stream(const LocalModel& model, Request request, const OnPiece& on_piece) {
  Executor engine(model);
  return stream(engine, std::move(request), on_piece);
}

Response generate(Executor& engine, Request request) {
  return stream(engine, std::move(request), nullptr);
}

Response generate(const LocalModel& model, Request request) {
  return stream(model, std::move(request), nullptr);
}

Response generate(const LocalModel& model, Prompt prompt) {
  Request request;
  request.prompt = std::move(prompt);
  return generate(model, std::move(request));
}

Response generate(const LocalModel& model, std::string_view text) {
  Result<Prompt> prompt = model.tokenize(text);
  if (!prompt.ok()) return {.final = true, .status = prompt.status()};
  return generate(model, std::move(prompt).value());
}

}  // namespace coxswain
