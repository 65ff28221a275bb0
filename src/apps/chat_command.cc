#include "apps/chat_command.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cwchar>
#include <histedit.h>
#include <iostream>
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <coxswain/chat.h>
#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <sys/eventfd.h>

#include "apps/environment.h"
#include "serve/model_source.h"

namespace coxswain::apps {
namespace {

constexpr std::string_view kCommands =
    "/clear begins anew, Ctrl-C ends an answer, Ctrl-D or /exit the program\n";

struct ChatWords {
  std::string model;
  std::string system;
  LocalModelOptions open;
  SamplingParams sampling;
  std::uint32_t max_new_tokens = 0;
};

// An eventfd that counts interrupts: whoever waits for a key waits for it, too, so none is lost between a look and the
// wait. A signal handler reaches nothing else.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int> interrupts{-1};

bool take_interrupts() {
  std::uint64_t n = 0;
  return interrupts >= 0 && read(interrupts, &n, sizeof n) == sizeof n;
}

template <typename Number>
Result<Number> number_of(std::string_view option, std::string_view text) {
  Number out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc() && end == text.data() + text.size()) return out;
  return invalid_argument(std::string(option) + " must be a number, `" + std::string(text) +
                          "` is none");
}

Status take_option(std::string_view name, std::string_view value, ChatWords& to) {
  if (name == "--system") {
    to.system = value;
  } else if (name == "--quantize") {
    to.open.quantize = value;
  } else if (name == "--threads") {
    COXSWAIN_ASSIGN_OR_RETURN(to.open.n_threads, number_of<std::size_t>(name, value));
  } else if (name == "--max-new-tokens") {
    COXSWAIN_ASSIGN_OR_RETURN(to.max_new_tokens, number_of<std::uint32_t>(name, value));
  } else if (name == "--temperature") {
    COXSWAIN_ASSIGN_OR_RETURN(to.sampling.temperature, number_of<float>(name, value));
    to.sampling.do_sample = to.sampling.temperature > 0;
    if (!to.sampling.do_sample) to.sampling.temperature = 1;
  } else if (name == "--seed") {
    COXSWAIN_ASSIGN_OR_RETURN(to.sampling.seed, number_of<std::uint64_t>(name, value));
  } else {
    return invalid_argument("chat does not understand `" + std::string(name) + "`");
  }
  return {};
}

Result<ChatWords> parse_words(std::span<const std::string_view> words) {
  ChatWords out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with('-') && out.model.empty()) {
      out.model = words[i];
    } else if (i + 1 < words.size()) {
      COXSWAIN_RETURN_IF_ERROR(take_option(words[i], words[i + 1], out));
      ++i;
    } else {
      return invalid_argument("chat does not understand `" + std::string(words[i]) + "`");
    }
  }
  if (out.model.empty()) return invalid_argument("chat needs a MODEL");
  return out;
}

Result<LocalModel> open(const ChatWords& words) {
  const std::string programs = serve::program_folder();
  const serve::ModelSource source =
      serve::find_model(words.model, programs, {.folder = hub_cache_folder()});
  std::string cure;
  if (const Status status =
          serve::check_model_folder(source, serve::bundled_models(programs), cure);
      !status.ok()) {
    return Status(status.code(), status.message() + (cure.empty() ? "" : ". " + cure));
  }
  return open_model(source.folder, words.open);
}

// Where messages come from.
class Lines {
 public:
  virtual ~Lines() = default;
  // None at the end. An interrupted line is empty.
  virtual std::optional<std::string> next() = 0;
};

class PipedLines final : public Lines {
 public:
  std::optional<std::string> next() override {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
};

// The next character for the editor, whose own reader goes on after an interrupt: 1, 0 at the end, -1 if interrupted,
// which the editor's client data is told.
int read_character(EditLine* editor, wchar_t* to) {
  std::mbstate_t state = {};
  for (;;) {
    std::array<pollfd, 2> waits{pollfd{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                pollfd{.fd = interrupts, .events = POLLIN, .revents = 0}};
    if (poll(waits.data(), waits.size(), -1) < 0 && errno == EINTR) continue;
    if (take_interrupts()) {
      void* is_interrupted = nullptr;
      el_get(editor, EL_CLIENTDATA, &is_interrupted);
      *static_cast<bool*>(is_interrupted) = true;
      return -1;
    }
    char byte = 0;
    const ssize_t n = read(STDIN_FILENO, &byte, 1);
    if (n == 0) return 0;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    // A Ctrl-D that was typed while an answer came: the terminal, not yet the editor's, keeps it as this.
    constexpr char kCtrlD = 4;
    if (byte == 0) byte = kCtrlD;
    const std::size_t used = std::mbrtowc(to, &byte, 1, &state);
    if (used == static_cast<std::size_t>(-1)) state = {};  // no character: left out
    if (used <= 1) return 1;
  }
}

// With an editor and what was typed before.
class TypedLines final : public Lines {
 public:
  TypedLines()
      : history_(history_init(), history_end),
        editor_(el_init("coxswain", stdin, stdout, stderr), el_end) {
    constexpr int kLinesKept = 1000;
    HistEvent event;
    history(history_.get(), &event, H_SETSIZE, kLinesKept);
    el_set(editor_.get(), EL_EDITOR, "emacs");
    el_set(
        editor_.get(), EL_PROMPT, +[](EditLine*) -> char* {
          static char prompt[] = "> ";
          return prompt;
        });
    el_wset(editor_.get(), EL_GETCFN, read_character);
    el_set(editor_.get(), EL_CLIENTDATA, &is_interrupted_);
    el_set(editor_.get(), EL_HIST, history, history_.get());
  }

  std::optional<std::string> next() override {
    int n = 0;
    const char* text = el_gets(editor_.get(), &n);
    if (text == nullptr || n <= 0) {
      if (!std::exchange(is_interrupted_, false)) return std::nullopt;
      el_reset(editor_.get());
      std::fputs("\n", stdout);
      return "";
    }
    std::string line(text, static_cast<std::size_t>(n));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_.get(), &event, H_ENTER, text);
    return line;
  }

 private:
  std::unique_ptr<History, decltype(&history_end)> history_;
  std::unique_ptr<EditLine, decltype(&el_end)> editor_;
  bool is_interrupted_ = false;
};

class Chat {
 public:
  Chat(const LocalModel& model, const ChatWords& words)
      : model_(model), words_(words), engine_(model), shows_(isatty(STDOUT_FILENO) != 0) {
    begin();
  }

  void begin() {
    messages_.clear();
    if (!words_.system.empty()) messages_.push_back({"system", words_.system});
  }

  // What fails leaves the conversation as it was.
  Status say(std::string line) {
    messages_.push_back({"user", std::move(line)});
    Status status = answer();
    if (!status.ok()) messages_.pop_back();
    return status;
  }

 private:
  Status answer() {
    COXSWAIN_ASSIGN_OR_RETURN(const ChatTurn turn, model_.chat(messages_, ChatOptions{}));
    Request request = turn.request();
    const SamplingParams of_turn = std::exchange(request.sampling, words_.sampling);
    request.sampling.grammar = of_turn.grammar;
    request.sampling.thoughts = of_turn.thoughts;
    request.stopping.max_new_tokens = words_.max_new_tokens;
    COXSWAIN_ASSIGN_OR_RETURN(const RequestId id, engine_.enqueue(std::move(request)));
    ReplyParser reply(turn);
    bool stopped = false;
    for (;;) {
      constexpr std::chrono::milliseconds kLook{50};
      const Response piece = engine_.await(id, kLook);
      for (const ReplyEvent& event : reply.push(piece)) show(event);
      std::fflush(stdout);
      if (!stopped && take_interrupts()) {
        stopped = true;
        engine_.cancel(id);
      }
      if (!piece.final) continue;
      if (!piece.status.ok() && !stopped) return piece.status;
      break;
    }
    show({.kind = ReplyEvent::Kind::kText, .text = stopped ? " (stopped)\n" : "\n"});
    std::fflush(stdout);
    messages_.push_back(reply.message());
    return {};
  }

  // A model's text moves no cursor: it is shown without control characters.
  void show(const ReplyEvent& event) {
    const bool thinks = event.kind == ReplyEvent::Kind::kReasoning;
    if (!thinks && event.kind != ReplyEvent::Kind::kText) return;
    if (!shows_) {
      if (!thinks) std::fwrite(event.text.data(), 1, event.text.size(), stdout);
      return;
    }
    if (thinks != std::exchange(is_dim_, thinks))
      std::fputs(thinks ? "\x1b[2m" : "\x1b[0m", stdout);
    for (const char c : event.text) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte >= 0x20 && byte != 0x7F) || c == '\n' || c == '\t') std::fputc(c, stdout);
    }
  }

  const LocalModel& model_;
  const ChatWords& words_;
  Executor engine_;
  const bool shows_;
  bool is_dim_ = false;
  std::vector<ChatMessage> messages_;
};

void catch_interrupts() {
  interrupts = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action = {};
  action.sa_handler = [](int) {
    const int error = errno;
    eventfd_write(interrupts, 1);
    errno = error;
  };
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

Status chat_with_model(std::span<const std::string_view> words) {
  COXSWAIN_ASSIGN_OR_RETURN(const ChatWords parsed, parse_words(words));
  COXSWAIN_ASSIGN_OR_RETURN(const LocalModel model, open(parsed));
  const bool typed = isatty(STDIN_FILENO) != 0;
  if (typed) {
    std::setlocale(LC_CTYPE, "");
    catch_interrupts();
    std::fputs(kCommands.data(), stderr);
  }
  const std::unique_ptr<Lines> lines = typed
                                           ? std::unique_ptr<Lines>(std::make_unique<TypedLines>())
                                           : std::make_unique<PipedLines>();
  Chat chat(model, parsed);
  while (auto line = lines->next()) {
    if (line->empty()) continue;
    if (*line == "/exit") break;
    if (*line == "/clear") {
      chat.begin();
      continue;
    }
    Status status = chat.say(std::move(*line));
    if (status.ok()) continue;
    if (!typed) return status;
    std::fprintf(stderr, "coxswain: %s\n", status.message().c_str());
  }
  if (typed) std::fputs("\n", stdout);
  return {};
}

}  // namespace coxswain::apps
