// A model calls functions of this program until it has an answer.
//
//     tools MODEL_FOLDER [QUESTION]
#include <iostream>
#include <string>
#include <vector>

#include <coxswain/chat.h>
#include <coxswain/executor.h>
#include <coxswain/local_model.h>

namespace {

using coxswain::ChatMessage;
using coxswain::ReplyEvent;

std::string get_weather(const std::string& arguments) {
  return arguments.find("Oslo") != std::string::npos ? R"({"temperature": 4, "sky": "cloudy"})"
                                                     : R"({"error": "no such city"})";
}

// The assistant's message; its text is printed as it comes.
coxswain::Result<ChatMessage> answer(const coxswain::LocalModel& model,
                                     coxswain::Executor& engine,
                                     const std::vector<ChatMessage>& messages,
                                     const coxswain::ChatOptions& options) {
  auto turn = model.chat(messages, options);
  if (!turn.ok()) return turn.status();
  auto id = engine.enqueue(turn->request());
  if (!id.ok()) return id.status();
  coxswain::ReplyParser reply(*turn);
  coxswain::Response piece;
  while (!piece.final) {
    piece = engine.await(*id);
    for (const ReplyEvent& event : reply.push(piece)) {
      if (event.kind == ReplyEvent::Kind::kText) std::cout << event.text << std::flush;
      if (event.kind == ReplyEvent::Kind::kCallBegin) std::cout << "-> " << event.text << ' ';
      if (event.kind == ReplyEvent::Kind::kArguments) std::cout << event.text << std::flush;
      if (event.kind == ReplyEvent::Kind::kCallEnd) std::cout << '\n';
    }
  }
  if (!piece.status.ok()) return piece.status;
  return reply.message();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto model = coxswain::open_model(argv[1]);
  if (!model.ok()) {
    std::cerr << model.status().message() << '\n';
    return 1;
  }
  coxswain::Executor engine(*model);
  coxswain::ChatOptions options;
  options.tools = {
      {.name = "get_weather",
       .description = "Weather of a city",
       .parameters =
           R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})"}};
  std::vector<ChatMessage> messages;
  messages.push_back({"user", argc > 2 ? argv[2] : "What is the weather in Oslo?"});
  for (int turn = 0; turn < 5; ++turn) {
    auto message = answer(*model, engine, messages, options);
    if (!message.ok()) {
      std::cerr << message.status().message() << '\n';
      return 1;
    }
    messages.push_back(*message);
    if (message->tool_calls.empty()) {
      std::cout << '\n';
      return 0;
    }
    for (const coxswain::ToolCall& call : message->tool_calls) {
      messages.push_back({.role = "tool",
                          .content = get_weather(call.arguments),
                          .tool_call_id = call.id,
                          .name = call.name});
    }
  }
  std::cerr << "it calls and calls\n";
  return 1;
}
