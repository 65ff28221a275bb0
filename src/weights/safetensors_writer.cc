#include "weights/safetensors_writer.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "json/json.h"

namespace coxswain::weights {
namespace {

// Data begins at a multiple of this; the header is padded with blanks, as the reference implementation does.
constexpr std::size_t kHeaderAlignment = 8;

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::span<const TensorDeclaration> tensors) {
  json::Object header;
  std::uint64_t at = 0;
  for (const TensorDeclaration& tensor : tensors) {
    const auto n_bytes = stored_bytes(tensor.type, tensor.shape);
    std::uint64_t end = 0;
    if (!n_bytes || __builtin_add_overflow(at, *n_bytes, &end)) {
      return invalid_argument(path + ": tensor \"" + tensor.name + "\" has no size below 2^64");
    }
    json::Array shape;
    for (const std::uint64_t dimension : tensor.shape)
      shape.push_back(json::Value::unsigned_integer(dimension));
    json::Object entry;
    entry.set("dtype", std::string(name_of(tensor.type)));
    entry.set("shape", std::move(shape));
    entry.set("data_offsets",
              json::Array{json::Value::unsigned_integer(at), json::Value::unsigned_integer(end)});
    header.set(tensor.name, std::move(entry));
    at = end;
  }
  std::string text = json::write(json::Value(std::move(header)));
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');

  SafetensorsWriter out;
  out.path_ = path;
  out.temporary_path_ = path + ".partial";
  out.descriptor_ =
      ::open(out.temporary_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (out.descriptor_ < 0) {
    return Status(Code::kNotFound,
                  out.temporary_path_ + ": cannot be written: " + std::strerror(errno));
  }
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<std::byte>(text.size() >> (8 * i) & 0xFF);
  out.bytes_left_ = length.size() + text.size() + at;
  COXSWAIN_RETURN_IF_ERROR(out.append(length));
  COXSWAIN_RETURN_IF_ERROR(out.append(std::as_bytes(std::span(text))));
  return out;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_path_.c_str());
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::move(other.temporary_path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_left_(other.bytes_left_) {}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > bytes_left_) return internal_error(path_ + ": more bytes than declared");
  bytes_left_ -= bytes.size();
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0)
      return {Code::kResourceExhausted,
              temporary_path_ + ": cannot be written: " + std::strerror(errno)};
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Status SafetensorsWriter::finish() {
  if (bytes_left_ != 0)
    return internal_error(path_ + ": " + std::to_string(bytes_left_) +
                          " declared bytes are missing");
  const bool synced = ::fsync(descriptor_) == 0;
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  if (!synced || !closed || std::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    ::unlink(temporary_path_.c_str());
    return {Code::kResourceExhausted, path_ + ": cannot be written: " + why};
  }
  return {};
}

}  // namespace coxswain::weights
