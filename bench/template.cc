// coxswain-bench-template: compile and render times of chat templates; kHelp says more.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.h"
#include "chat/chat_template.h"
#include "json/json.h"

namespace {

using namespace coxswain;
namespace fs = std::filesystem;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-template DIR

Compile and render times of every template below DIR/chat-templates, each with the longest
conversation that it accepts; the slowest to render first.

bench/template_reference.py prints the same for Jinja2.
)";

struct Row {
  std::string name;
  double compile_us = 0;
  double render_us = 0;
  std::size_t bytes = 0;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Median of `rounds` calls in microseconds.
template <typename F>
double median_us(int rounds, F run) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  std::ranges::nth_element(times, times.begin() + rounds / 2);
  return times[static_cast<std::size_t>(rounds / 2)];
}

chat::RenderInput input_of(const json::Value& conversation) {
  chat::RenderInput input;
  input.messages = *conversation.find("messages");
  if (const auto* tools = conversation.find("tools")) input.tools = *tools;
  if (const auto* documents = conversation.find("documents")) input.documents = *documents;
  if (const auto* kwargs = conversation.find("kwargs")) input.extra = *kwargs;
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  return input;
}

Row measure(const fs::path& path, const std::vector<chat::RenderInput>& inputs) {
  const std::string source = read_file(path);
  Row row{.name = path.stem().string()};
  row.compile_us = median_us(21, [&] { (void)chat::ChatTemplate::compile(source); });
  const auto compiled = chat::ChatTemplate::compile(source);
  if (!compiled.ok()) return row;
  const chat::RenderInput* longest = nullptr;
  for (const chat::RenderInput& input : inputs) {
    const auto out = compiled->render(input);
    if (out.ok() && out->text.size() > row.bytes) {
      row.bytes = out->text.size();
      longest = &input;
    }
  }
  if (longest != nullptr) row.render_us = median_us(101, [&] { (void)compiled->render(*longest); });
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv, kHelp);
  const fs::path folder = fs::path(arguments.required_word("DIR")) / "chat-templates";
  arguments.finish();
  const auto conversations =
      json::parse_file((folder / "conversations.json").string(), std::size_t{64} << 20);
  if (!conversations.ok()) {
    std::fprintf(stderr, "%s\n", conversations.status().message().c_str());
    return 2;
  }
  std::vector<chat::RenderInput> inputs;
  for (const json::Value& conversation : conversations->as_array())
    inputs.push_back(input_of(conversation));
  std::vector<Row> rows;
  for (const auto& entry : fs::directory_iterator(folder / "templates"))
    rows.push_back(measure(entry.path(), inputs));
  std::ranges::sort(rows, std::ranges::greater{}, &Row::render_us);
  std::printf("%-52s %12s %12s %8s\n", "template", "compile us", "render us", "bytes");
  for (const Row& row : rows) {
    std::printf(
        "%-52s %12.0f %12.1f %8zu\n", row.name.c_str(), row.compile_us, row.render_us, row.bytes);
  }
  return 0;
}
