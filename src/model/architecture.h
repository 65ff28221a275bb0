#pragma once
// Architecture: what config.json says of a model: what is computed (ArchSpec) and which tensors
// hold the weights (TensorMap).
//
// Thread rule: values.

#include <string>
#include <variant>
#include <vector>

#include "model/arch_spec.h"
#include "model/tensor_map.h"

namespace coxswain::model {

struct LayerMap {
  NormMap mixer_norm;  // before the mixer, or after it for NormPlacement::kAfterResidual
  NormMap mixer_norm_after;
  NormMap feed_forward_norm;
  NormMap feed_forward_norm_after;
  MixerMap mixer;
  FeedForwardMap feed_forward;

  // REQUIRES: the layer is of that kind; a new LayerMap is attention and MLP.
  AttentionMap& attention() { return std::get<AttentionMap>(mixer); }
  const AttentionMap& attention() const { return std::get<AttentionMap>(mixer); }
  MlpMap& mlp() { return std::get<MlpMap>(feed_forward); }
  const MlpMap& mlp() const { return std::get<MlpMap>(feed_forward); }

  template <typename Visitor>
  void visit(Visitor&& f) const {
    f(mixer_norm);
    f(mixer_norm_after);
    f(feed_forward_norm);
    f(feed_forward_norm_after);
    std::visit([&](const auto& map) { map.visit(f); }, mixer);
    std::visit([&](const auto& map) { map.visit(f); }, feed_forward);
  }
};

struct TensorMap {
  // What may stand before every name but the head's.
  std::vector<std::string> prefixes{""};
  EmbeddingMap embedding;
  std::vector<LayerMap> layers;
  HeadMap head;
};

struct Architecture {
  ArchSpec arch;
  TensorMap tensors;
};

}  // namespace coxswain::model
