#include "model/window_limits.h"

#include <algorithm>
#include <string>
#include <variant>

#include "model/config_reader.h"

namespace coxswain::model {
namespace {

Status too_large(const char* field, std::uint32_t value) {
  return invalid_argument("`" + std::string(field) + "` must be at most " +
                              std::to_string(kPositionsMax) + ". Given: " + std::to_string(value),
                          field);
}

Status check(const WindowLimits& limits, const ArchSpec& arch) {
  const auto& windows = limits.max_attention_window;
  if (windows.size() > arch.n_layers()) {
    return invalid_argument(
        "`max_attention_window` has a window for each layer at most, and this model has " +
            std::to_string(arch.n_layers()) + " layers. Given: " + std::to_string(windows.size()) +
            " windows",
        "max_attention_window");
  }
  for (const std::uint32_t window : windows) {
    if (window > kPositionsMax) return too_large("max_attention_window", window);
  }
  if (limits.sink_token_length > kPositionsMax)
    return too_large("sink_token_length", limits.sink_token_length);
  return {};
}

void set_window(std::uint32_t limit, std::uint32_t positions_max, AttentionSpec& layer) {
  // A window that no sequence can outgrow is no window.
  if (limit == 0 || (positions_max > 0 && limit >= positions_max)) return;
  layer.window = layer.window == 0 ? limit : std::min(layer.window, limit);
}

}  // namespace

Status apply(const WindowLimits& limits, ArchSpec& arch) {
  COXSWAIN_RETURN_IF_ERROR(check(limits, arch));
  bool any_window = false;
  for (std::size_t i = 0; i < arch.layers.size(); ++i) {
    auto* layer = std::get_if<AttentionSpec>(&arch.layers[i].mixer);
    if (layer == nullptr) continue;
    const auto& windows = limits.max_attention_window;
    if (!windows.empty()) set_window(windows[i % windows.size()], arch.max_positions, *layer);
    if (layer->window == 0 || limits.sink_token_length == 0) continue;
    any_window = true;
    if (!layer->alibi_slopes.empty()) {
      return invalid_argument(
          "`sink_token_length` must be 0 where scores fall with the distance (ALiBi): the first "
          "tokens would have no weight. Given: " +
              std::to_string(limits.sink_token_length) + "; leave it out",
          "sink_token_length");
    }
    layer->sink_tokens = limits.sink_token_length;
  }
  if (limits.sink_token_length > 0 && !any_window) {
    return invalid_argument(
        "`sink_token_length` must be 0 where no layer of the model has a window. Given: " +
            std::to_string(limits.sink_token_length) + "; set max_attention_window, too",
        "sink_token_length");
  }
  return {};
}

}  // namespace coxswain::model
