#pragma once
// The blocks that a layer is made of: the one place where a new kind is named (block.h says what it has to offer).
//
// Thread rule: values.

#include <type_traits>
#include <variant>

#include "model/blocks/attention.h"
#include "model/blocks/experts.h"
#include "model/blocks/mlp.h"

namespace coxswain::model {

// Mixes the rows of a sequence.
using Mixer = std::variant<Attention>;
// Works on each row alone.
using FeedForward = std::variant<Mlp, Experts>;

// The specs and the maps of the blocks of a variant, at the same places.
template <typename Blocks>
struct PartsOf;
template <typename... Block>
struct PartsOf<std::variant<Block...>> {
  using Spec = std::variant<typename Block::Spec...>;
  using Map = std::variant<typename Block::Map...>;
};

// The block that a spec is of.
template <typename Spec>
using BlockOf = std::remove_cvref_t<Spec>::Block;

using MixerSpec = PartsOf<Mixer>::Spec;
using MixerMap = PartsOf<Mixer>::Map;
using FeedForwardSpec = PartsOf<FeedForward>::Spec;
using FeedForwardMap = PartsOf<FeedForward>::Map;

}  // namespace coxswain::model
