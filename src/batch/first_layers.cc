#include "batch/first_layers.h"

#include <string>
#include <utility>

#include "batch/engine_core.h"
#include "batch/layer_steps.h"

namespace coxswain::batch {
namespace {

class FirstLayers : public std::enable_shared_from_this<FirstLayers> {
 public:
  FirstLayers(GenerationRequest request,
              std::uint32_t n_layers,
              TimePoint until,
              FirstLayersDone done)
      : request_(std::move(request)), n_layers_(n_layers), until_(until), done_(std::move(done)) {}

  void begin(EngineCore& core) {
    const std::uint32_t n_all = core.runner_info().n_layers;
    if (n_layers_ == 0 || n_layers_ >= n_all) {
      return done_(invalid_argument("`n_layers` must be at least 1 and below " +
                                        std::to_string(n_all) + ", given " +
                                        std::to_string(n_layers_),
                                    "n_layers"));
    }
    Result<SplitPrompt> split = begin_split(core, request_, until_);
    if (!split.ok()) return done_(split.status());
    split_ = std::move(split).value();
    run_layers(core,
               {.prompt = split_,
                .layers = {.begin = 0, .end = n_layers_},
                .done = [self = shared_from_this()](EngineCore& engine,
                                                    const Result<std::uint64_t>& hidden) {
                  self->end(engine, hidden);
                }});
  }

 private:
  void end(EngineCore& core, const Result<std::uint64_t>& hidden) {
    if (hidden.ok()) return done_(park_split(core, split_, request_, n_layers_, *hidden, until_));
    core.transfers().close(split_.hold);
    done_(hidden.status());
  }

  const GenerationRequest request_;
  const std::uint32_t n_layers_;
  const TimePoint until_;
  const FirstLayersDone done_;
  SplitPrompt split_;
};

}  // namespace

void compute_first_layers(Engine& engine,
                          GenerationRequest request,
                          std::uint32_t n_layers,
                          TimePoint until,
                          FirstLayersDone done) {
  const auto work =
      std::make_shared<FirstLayers>(std::move(request), n_layers, until, std::move(done));
  engine.post([work](EngineCore& core) { work->begin(core); });
}

}  // namespace coxswain::batch
