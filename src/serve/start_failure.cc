#include "serve/start_failure.h"

#include <utility>

#include "json/json.h"

namespace coxswain::serve {

namespace {
constexpr std::string_view kBegin = "Error: ";
}  // namespace

StartFailure make_start_failure(std::string variant,
                                const Status& status,
                                std::string cure,
                                int exit_code) {
  StartFailure out{std::move(variant), status.message(), std::move(cure), exit_code};
  if (const std::size_t mark = out.cause.rfind("; "); mark != std::string::npos) {
    out.cure = out.cause.substr(mark + 2);
    out.cause.resize(mark);
    if (out.cure[0] >= 'a' && out.cure[0] <= 'z') {
      out.cure[0] = static_cast<char>(out.cure[0] - 'a' + 'A');
    }
    out.cure += '.';
  }
  return out;
}

std::string to_lines(const StartFailure& failure) {
  std::string out(kBegin);
  out += failure.variant;
  out += '(';
  json::append_quoted(out, failure.cause);
  out += ")\n";
  if (!failure.cure.empty()) out += failure.cure + "\n";
  return out;
}

std::optional<StartFailure> read_failure_line(std::string_view line) {
  if (!line.starts_with(kBegin) || !line.ends_with(')')) return std::nullopt;
  line.remove_prefix(kBegin.size());
  line.remove_suffix(1);
  const std::size_t open = line.find('(');
  if (open == std::string_view::npos) return std::nullopt;
  const auto cause = json::parse(line.substr(open + 1));
  if (!cause.ok() || !cause->is_string()) return std::nullopt;
  StartFailure out;
  out.variant = line.substr(0, open);
  out.cause = cause->as_string();
  return out;
}

}  // namespace coxswain::serve
