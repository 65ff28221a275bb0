// A conversation that is continued turn by turn, rolled back to an earlier
// point and taken elsewhere.
//
//     sessions MODEL_FOLDER
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <coxswain/session.h>

using namespace coxswain;

namespace {

// Asks with the conversation so far and returns the answer, which it adds to the conversation. The session keeps what
// it has in common with the conversation; the rest of it is rolled back and said anew.
Result<std::string> ask(const LocalModel& model,
                        Session& session,
                        std::vector<ChatMessage>& conversation,
                        const std::string& question) {
  conversation.push_back({"user", question});
  COXSWAIN_ASSIGN_OR_RETURN(const Prompt whole, model.chat(conversation));
  const std::vector<TokenId> history = session.history();
  const auto differs =
      std::mismatch(whole.ids.begin(), whole.ids.end(), history.begin(), history.end()).first;
  COXSWAIN_RETURN_IF_ERROR(session.step(differs - whole.ids.begin()));

  Request turn;
  turn.prompt.ids.assign(differs, whole.ids.end());
  turn.stopping.max_new_tokens = 64;
  COXSWAIN_RETURN_IF_ERROR(session.enqueue(std::move(turn)));
  std::string answer;
  for (;;) {
    const Response piece = session.await();
    answer += piece.text;
    if (!piece.final) continue;
    COXSWAIN_RETURN_IF_ERROR(piece.status);
    std::cout << question << " -> " << answer << "  [" << piece.usage.n_cached_prompt_tokens
              << " of " << piece.usage.n_prompt_tokens << " tokens were there]\n";
    conversation.push_back({"assistant", answer});
    return answer;
  }
}

Status talk(const LocalModel& model, Executor& engine) {
  Sessions sessions(engine);
  COXSWAIN_ASSIGN_OR_RETURN(Session session, sessions.start(7));
  std::vector<ChatMessage> conversation;
  COXSWAIN_RETURN_IF_ERROR(ask(model, session, conversation, "What is 12 + 30?").status());
  const auto earlier = conversation;
  COXSWAIN_ASSIGN_OR_RETURN(const std::string first,
                            ask(model, session, conversation, "Who are you?"));
  conversation = earlier;  // as if that had not been asked
  COXSWAIN_RETURN_IF_ERROR(ask(model, session, conversation, "What is 5 + 6?").status());
  conversation = earlier;
  COXSWAIN_ASSIGN_OR_RETURN(const std::string again,
                            ask(model, session, conversation, "Who are you?"));
  std::cout << (first == again ? "the same answer" : "another answer") << '\n';
  return session.end();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto model = open_model(argv[1]);
  if (!model.ok()) {
    std::cerr << model.status().message() << '\n';
    return 1;
  }
  Executor engine(*model);
  const Status status = talk(*model, engine);
  if (!status.ok()) std::cerr << status.message() << '\n';
  return status.ok() ? 0 : 1;
}
