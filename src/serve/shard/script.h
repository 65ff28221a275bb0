#pragma once
// Answers that a file says in place of the model (--script), so that tests of clients know what comes.
//
// The file is a JSON array of {"after": TEXT, "answer": TEXT}. A prompt is answered by the entry whose `after` begins
// last in it, whatever ran before or runs beside; a prompt that has none of them is the model's. `answer` is text as
// the model would write it, special tokens and the end token included. A script only says which token scores best:
// sampling, penalties and grammars act as they do on a model, and an answer that has left the script is the model's.
//
// Thread rule: as LogitsProcessor.

#include <memory>
#include <string>

#include <coxswain/logits_processor.h>
#include <coxswain/status.h>
#include <coxswain/text_codec.h>

namespace coxswain::serve {

// Errors: kNotFound, kInvalidArgument; they name the file, and the entry at fault.
Result<std::shared_ptr<LogitsProcessor>> load_script(const std::string& path,
                                                     std::shared_ptr<const TextCodec> codec);

}  // namespace coxswain::serve
