#pragma once
// One-liners: a whole answer, or one piece by piece, in the calling thread.
//
//     std::cout << coxswain::generate(*model, model->chat({{"user", "Hello!"}}).value()).text;
//
// Thread rule: any thread. Over an Executor others may use it meanwhile; over a model it must be in nobody's use.

#include <functional>
#include <string_view>

#include <coxswain/executor.h>
#include <coxswain/export.h>
#include <coxswain/local_model.h>
#include <coxswain/request.h>

namespace coxswain {

// The whole answer as one final response. What enqueue() would refuse is in its status.
COXSWAIN_EXPORT Response generate(Executor& engine, Request request);
COXSWAIN_EXPORT Response generate(const LocalModel& model, Request request);
// Greedy, as many tokens as there is room for.
COXSWAIN_EXPORT Response generate(const LocalModel& model, Prompt prompt);
COXSWAIN_EXPORT Response generate(const LocalModel& model, std::string_view text);

// Called with each response as it comes, the final one too. False ends the request, as an exception does.
using OnPiece = std::function<bool(const Response& piece)>;

// The whole answer again. If on_piece ended it: kCancelled; what an exception said is in the message.
COXSWAIN_EXPORT Response stream(Executor& engine, Request request, const OnPiece& on_piece);
COXSWAIN_EXPORT Response stream(const LocalModel& model, Request request, const OnPiece& on_piece);

}  // namespace coxswain
