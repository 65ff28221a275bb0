#include "supervise/line_buffer.h"

#include <algorithm>
#include <utility>

namespace coxswain::supervise {

std::vector<std::string> LineBuffer::push(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    const std::size_t room = line_bytes_max_ - std::min(line_bytes_max_, pending_.size());
    pending_.append(part.substr(0, room));
    if (end == std::string_view::npos) break;
    if (!pending_.empty() && pending_.back() == '\r') pending_.pop_back();
    lines.push_back(std::exchange(pending_, {}));
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

std::string LineBuffer::take_rest() {
  return std::exchange(pending_, {});
}

}  // namespace coxswain::supervise
