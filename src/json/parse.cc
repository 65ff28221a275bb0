// The reader: a handler on Boost.JSON's basic_parser, which checks grammar, UTF-8 and depth. The
// handler builds our own values, keeps the text of numbers, refuses repeated keys and counts
// members and elements before it stores them.

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <unordered_set>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>

#include "base/keyed_hash.h"
#include "json/json.h"

namespace coxswain::json {
namespace {

constexpr std::size_t kNameBytesMax = 64;  // of a key in a message

struct Refusal {
  ErrorKind kind = ErrorKind::kInvalidJson;
  std::string message;
  std::string field = {};
};

// One open array or object. Above kSetAbove members a set of keys keeps the search for repeats linear.
struct Frame {
  bool is_object = false;
  Array array;
  Object object;
  std::string key;
  std::unordered_set<std::string, base::KeyedHash> keys;
};

class Handler {
 public:
  // Names that basic_parser asks for.
  // NOLINTBEGIN(readability-identifier-naming)
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  // NOLINTEND(readability-identifier-naming)

  using Error = boost::json::error_code;
  using View = boost::json::string_view;

  explicit Handler(const ParseLimits& limits) : limits_(limits) {}

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }

  bool on_object_begin(Error&) {
    frames_.emplace_back().is_object = true;
    return true;
  }
  bool on_object_end(std::size_t, Error& error) {
    Object object = std::move(frames_.back().object);
    frames_.pop_back();
    return add(Value(std::move(object)), error);
  }
  bool on_array_begin(Error&) {
    frames_.emplace_back();
    return true;
  }
  bool on_array_end(std::size_t, Error& error) {
    Array array = std::move(frames_.back().array);
    frames_.pop_back();
    return add(Value(std::move(array)), error);
  }

  bool on_key_part(View part, std::size_t, Error&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_key(View part, std::size_t, Error& error) {
    text_.append(part.data(), part.size());
    Frame& frame = frames_.back();
    if (is_repeated(frame)) {
      return refuse(
          ErrorKind::kValidation, "repeated key \"" + text_.substr(0, kNameBytesMax) + "\"", error);
    }
    frame.key = std::move(text_);
    text_.clear();
    return true;
  }
  bool on_string_part(View part, std::size_t, Error&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_string(View part, std::size_t, Error& error) {
    text_.append(part.data(), part.size());
    std::string text = std::move(text_);
    text_.clear();
    return add(Value(std::move(text)), error);
  }

  bool on_number_part(View part, Error& error) {
    number_.append(part.data(), part.size());
    return number_fits(error);
  }
  bool on_int64(std::int64_t, View part, Error& error) { return add_number(part, error); }
  bool on_uint64(std::uint64_t, View part, Error& error) { return add_number(part, error); }
  bool on_double(double value, View part, Error& error) {
    if (!std::isfinite(value)) return refuse(ErrorKind::kInvalidJson, "number out of range", error);
    return add_number(part, error);
  }

  bool on_bool(bool value, Error& error) { return add(Value(value), error); }
  bool on_null(Error& error) { return add(Value(), error); }
  bool on_comment_part(View, Error&) { return true; }
  bool on_comment(View, Error&) { return true; }

  Value take() { return std::move(root_); }
  const Refusal& refusal() const { return refusal_; }

 private:
  static constexpr std::size_t kSetAbove = 16;

  bool refuse(ErrorKind kind, std::string message, Error& error, std::string field = {}) {
    refusal_ = {kind, std::move(message), std::move(field)};
    error = boost::json::make_error_code(boost::json::error::exception);
    return false;
  }

  bool is_repeated(Frame& frame) {
    if (frame.object.size() < kSetAbove) return frame.object.find(text_) != nullptr;
    if (frame.keys.empty()) {
      for (const auto& [key, value] : frame.object) frame.keys.insert(key);
    }
    return !frame.keys.insert(text_).second;
  }

  bool number_fits(Error& error) {
    if (number_.size() <= limits_.number_chars_max) return true;
    return refuse(
        ErrorKind::kInvalidJson,
        "a number has more than " + std::to_string(limits_.number_chars_max) + " characters",
        error);
  }

  bool add_number(View part, Error& error) {
    number_.append(part.data(), part.size());
    if (!number_fits(error)) return false;
    std::string text = std::move(number_);
    number_.clear();
    return add(Value(Number{std::move(text)}), error);
  }

  // Refuses what is in frame `depth`, under the key that it or an array around it stands for.
  bool too_many(std::size_t depth, std::size_t max, const char* what, Error& error) {
    const bool is_object = frames_[depth].is_object;
    std::string name;
    for (std::size_t i = depth; i > 0 && name.empty(); --i) {
      if (frames_[i - 1].is_object) name = frames_[i - 1].key.substr(0, kNameBytesMax);
    }
    const std::string subject =
        name.empty() ? std::string(is_object ? "an object" : "an array") : "`" + name + "`";
    return refuse(
        ErrorKind::kValidation,
        subject + " must have at most " + std::to_string(max) + " " + what + ". Given: more",
        error,
        std::move(name));
  }

  bool is_without_limit() const {
    if (frames_.size() < 2 || frames_.size() > 3 || !frames_.front().is_object) return false;
    if (frames_[1].is_object) return false;
    const auto& names = limits_.arrays_without_limit;
    return std::find(names.begin(), names.end(), frames_.front().key) != names.end();
  }

  bool add(Value value, Error& error) {
    if (frames_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Frame& frame = frames_.back();
    if (frame.is_object) {
      if (frame.object.size() >= limits_.members_max) {
        return too_many(frames_.size() - 1, limits_.members_max, "members", error);
      }
      frame.object.append_new(std::move(frame.key), std::move(value));
      frame.key.clear();
      return true;
    }
    if (frame.array.size() >= limits_.elements_max && !is_without_limit()) {
      return too_many(frames_.size() - 1, limits_.elements_max, "elements", error);
    }
    frame.array.push_back(std::move(value));
    return true;
  }

  ParseLimits limits_;
  std::vector<Frame> frames_;
  std::string text_;
  std::string number_;
  Value root_;
  Refusal refusal_;
};

std::string position_of(std::string_view text, std::size_t offset) {
  std::size_t line = 1;
  std::size_t line_begin = 0;
  for (std::size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      line_begin = i + 1;
    }
  }
  return "line " + std::to_string(line) + " column " + std::to_string(offset - line_begin + 1);
}

}  // namespace

Result<Value> parse(std::string_view text, const ParseLimits& limits) {
  boost::json::parse_options options;
  options.max_depth = limits.depth_max;
  boost::json::basic_parser<Handler> parser(options, limits);
  boost::json::error_code error;
  std::size_t read = 0;
  try {
    read = parser.write_some(false, text.data(), text.size(), error);
  } catch (const std::bad_alloc&) {
    return Status(Code::kResourceExhausted,
                  ErrorKind::kOverloaded,
                  "not enough memory to read the JSON text");
  }
  if (!error && read < text.size())
    error = boost::json::make_error_code(boost::json::error::extra_data);
  if (!error && !parser.done())
    error = boost::json::make_error_code(boost::json::error::incomplete);
  if (error) {
    const Refusal& refusal = parser.handler().refusal();
    const bool ours = !refusal.message.empty();
    return Status(Code::kInvalidArgument,
                  ours ? refusal.kind : ErrorKind::kInvalidJson,
                  (ours ? refusal.message : error.message()) + " at " + position_of(text, read),
                  refusal.field);
  }
  return parser.handler().take();
}

Result<Value> parse_file(const std::string& path,
                         std::size_t bytes_max,
                         const ParseLimits& limits) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return Status(Code::kNotFound, "cannot open " + path + ": " + std::strerror(errno));
  if (std::error_code error; std::filesystem::is_directory(path, error))
    return Status(Code::kNotFound, path + " is a folder, not a file");
  const auto size = static_cast<std::streamoff>(file.tellg());
  if (size < 0) return Status(Code::kNotFound, "cannot read " + path);
  if (static_cast<std::uint64_t>(size) > bytes_max) {
    return invalid_argument(path + " has " + std::to_string(size) + " bytes, more than " +
                            std::to_string(bytes_max));
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) return Status(Code::kDataLoss, "cannot read all of " + path);
  auto value = parse(text, limits);
  if (!value.ok()) return value.status().with_context(path);
  return value;
}

}  // namespace coxswain::json
