#pragma once
// Decoders: tokens to text, as a chain of stages that take one token after another.
//
// A stage holds back no more than it must: the bytes of an unfinished character, what a later token
// could still change. Decoding at once is pushing every token and finishing, so a stream and the whole
// agree by construction. Thread rule: a plan is immutable, a DecoderChain belongs to one thread.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::json {
class Value;
}

namespace coxswain::tokenizer {

// Takes tokens (or, behind a stage that fuses them, pieces of one string) and passes on what they become.
class DecoderStage {
 public:
  explicit DecoderStage(DecoderStage* next) : next_(next) {}
  virtual ~DecoderStage() = default;
  virtual void push(std::string_view token) = 0;
  virtual void finish() { next_->finish(); }

 protected:
  DecoderStage& next() { return *next_; }

 private:
  DecoderStage* next_;
};

// One step of the plan; makes the stage that runs it.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual std::unique_ptr<DecoderStage> make_stage(DecoderStage* next, bool is_fused) const = 0;
  // Behind this step there are no tokens any more, but one string in pieces.
  virtual bool fuses() const { return false; }
  virtual bool is_byte_level() const { return false; }
  // Behind a step that fuses: takes the string in pieces. Others get it as one token at the end.
  virtual bool takes_pieces() const { return false; }
  // How many times longer than its token a text can become.
  virtual std::size_t growth() const { return 1; }
  // What every token but the first becomes, where that depends on the token alone.
  virtual std::optional<std::string> later_token(std::string_view) const { return std::nullopt; }
  // The bytes that a token becomes in the middle of a text, whatever stands around it; a piece where is_fused.
  virtual std::string later_bytes(std::string_view token, bool is_fused) const = 0;
};

using DecoderPlan = std::vector<std::unique_ptr<DecoderStep>>;

// The bytes that a token adds in the middle of a text: of an unfinished character too, and with what a step would drop
// at the ends of the text or replace across tokens.
std::string later_bytes(const DecoderPlan& plan, std::string_view token);

// A running decoder.
class DecoderChain {
 public:
  explicit DecoderChain(const DecoderPlan& plan);
  DecoderChain(const DecoderChain&) = delete;
  DecoderChain& operator=(const DecoderChain&) = delete;

  void push(std::string_view token) { first_->push(token); }
  void finish() { first_->finish(); }
  // The text that is settled since the last call.
  std::string take() { return std::exchange(text_, {}); }
  void discard() { text_.clear(); }

 private:
  std::string text_;
  std::vector<std::unique_ptr<DecoderStage>> stages_;
  DecoderStage* first_ = nullptr;
};

// Characters of a stream of bytes as soon as they are complete; broken bytes become U+FFFD, one for
// each maximal subpart or one for each byte.
class Utf8Assembler {
 public:
  enum class Broken { kPerSubpart, kPerByte };
  explicit Utf8Assembler(Broken broken) : broken_(broken) {}

  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);  // what is left is broken
  bool empty() const { return held_.empty(); }

 private:
  void take_valid(std::string_view bytes, std::string& out);
  void put_broken(std::size_t n_bytes, std::string& out) const;

  Broken broken_;
  std::string held_;  // the start of a character, at most 3 bytes
};

// The "decoder" section of a tokenizer.json. null: tokens joined by blanks.
// Errors: kInvalidArgument naming the member at fault below `where`.
Result<DecoderPlan> parse_decoder(const json::Value& section, const std::string& where);

}  // namespace coxswain::tokenizer
