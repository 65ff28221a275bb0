/* Asks a model a question through the C API, prints the answer as it comes, then stops a second one on the way.
 *
 *     c_api MODEL_FOLDER
 */
#include <stdio.h>
#include <stdlib.h>

#include <coxswain/coxswain.h>

static void check(coxswain_code code, char* error) {
  if (code == COXSWAIN_OK) return;
  fprintf(stderr, "error %d: %s\n", (int)code, error);
  coxswain_text_free(error);
  exit(1);
}

static uint64_t ask(const coxswain_model* model, coxswain_engine* engine, const char* question) {
  const char* roles[] = {"user"};
  const char* contents[] = {question};
  char* error = NULL;
  coxswain_prompt* prompt = NULL;
  check(coxswain_chat(model, roles, contents, 1, &prompt, &error), error);

  coxswain_request request;
  coxswain_request_init(&request, sizeof request);
  request.prompt = prompt;
  request.max_new_tokens = 64;
  uint64_t id = 0;
  check(coxswain_enqueue(engine, &request, &id, &error), error);
  coxswain_prompt_free(prompt);
  return id;
}

/* Prints the answer and returns the code that it ended with. */
static coxswain_code print_answer(coxswain_engine* engine, uint64_t id) {
  char* error = NULL;
  coxswain_code ended = COXSWAIN_OK;
  coxswain_response piece;
  coxswain_response_init(&piece, sizeof piece);
  do {
    check(coxswain_await(engine, id, -1, &piece, &error), error);
    fwrite(piece.text, 1, piece.text_bytes, stdout);
    ended = piece.code;
  } while (!piece.is_final);
  coxswain_response_clear(&piece);
  return ended;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  char* error = NULL;
  coxswain_model* model = NULL;
  coxswain_engine* engine = NULL;
  check(coxswain_open(argv[1], NULL, &model, &error), error);
  check(coxswain_start(model, NULL, &engine, &error), error);

  const coxswain_code answered = print_answer(engine, ask(model, engine, "What is 12 + 30?"));
  printf("\n");
  const uint64_t unwanted = ask(model, engine, "Who are you?");
  coxswain_cancel(engine, unwanted);
  const coxswain_code stopped = print_answer(engine, unwanted);
  printf("\n%s\n", stopped == COXSWAIN_CANCELLED ? "cancelled" : "was faster than the cancel");

  coxswain_close(engine);
  coxswain_model_close(model);
  return answered == COXSWAIN_OK ? 0 : 1;
}
