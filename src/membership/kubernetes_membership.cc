#include <fstream>
#include <iterator>
#include <utility>

#include "base/random.h"
#include "membership/endpoint_table.h"
#include "membership/watched_list.h"

namespace coxswain::membership {
namespace {

using std::chrono::seconds;

constexpr seconds kPatience{30};
// The server is asked to end a watch between one and two of these, so that the watches of many do not end together.
constexpr seconds kWatch{300};
constexpr seconds kSurplus{30};  // then we end it: the server's end was lost on the way
constexpr std::size_t kTokenBytesMax = 64 << 10;
constexpr json::ParseLimits kLimits{.depth_max = 64};

constexpr int kOk = 200;
constexpr int kUnauthorized = 401;
constexpr int kGone = 410;

std::string escaped(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
        c == '.' || c == '_') {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

// "message" of a Status object.
std::string words_of(const json::Value& status) {
  const json::Value* message = status.find("message");
  return message != nullptr && message->is_string() ? message->as_string() : "no reason given";
}

class KubernetesList final : public ListWatch {
 public:
  explicit KubernetesList(KubernetesOptions options)
      : options_(std::move(options)),
        client_(options_.tls),
        table_(options_.services, options_.port) {
    url_ = options_.api + "/apis/discovery.k8s.io/v1/namespaces/" + escaped(options_.name_space) +
           "/endpointslices?labelSelector=";
    std::string services;
    for (const auto& [name, role] : options_.services)
      services += (services.empty() ? "" : ",") + name;
    url_ += escaped("kubernetes.io/service-name in (" + services + ")");
  }

  Status check() override {
    const Result<std::vector<std::string>> headers = authorization();
    return headers.ok() ? Status() : headers.status();
  }
  bool pause(std::chrono::milliseconds time) override { return client_.pause(time); }
  void stop() override { client_.stop(); }

  // From the last version that was seen, which may be one from before the connection was lost.
  Status follow(Finder& finder) override {
    Status end;
    for (int turn = 0; turn < 2; ++turn) {
      if (std::exchange(is_gone_, false)) version_.clear();
      if (version_.empty()) {
        if (Status status = list(finder); !status.ok()) return status;
      }
      end = watch(finder);
      if (!is_gone_) break;  // gone: once without a pause
    }
    return end;
  }

 private:
  Result<std::vector<std::string>> authorization() const {
    if (options_.token_path.empty()) return std::vector<std::string>();
    std::ifstream in(options_.token_path, std::ios::binary);
    std::string token((std::istreambuf_iterator<char>(in)), {});
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
    if (token.empty() || token.size() > kTokenBytesMax)
      return Status(Code::kNotFound, "no token can be read from " + options_.token_path);
    return std::vector<std::string>{"Authorization: Bearer " + token};
  }

  // `ask` with the token of now; a second time if it has just expired.
  template <typename Ask>
  Result<HttpAnswer> with_token(const std::string& url, const Ask& ask) {
    Result<HttpAnswer> answer = Status(Code::kInternal, "not asked");
    for (int turn = 0; turn < 2; ++turn) {
      Result<std::vector<std::string>> headers = authorization();
      if (!headers.ok()) return headers.status();
      answer = ask(HttpRequest{.url = url, .headers = std::move(headers).value()});
      if (!answer.ok() || answer.value().status != kUnauthorized) return answer;
    }
    return answer;
  }

  static Status refusal(const HttpAnswer& answer) {
    const Result<json::Value> read = json::parse(answer.body, kLimits);
    return {Code::kUnavailable,
            "the API server answers " + std::to_string(answer.status) +
                (read.ok() ? ": " + words_of(read.value()) : std::string())};
  }

  Status list(Finder& finder) {
    const Result<HttpAnswer> answer = with_token(
        url_, [&](const HttpRequest& request) { return client_.ask(request, kPatience); });
    if (!answer.ok()) return answer.status().with_context(options_.api);
    if (answer.value().status != kOk) return refusal(answer.value());
    const Result<json::Value> read = json::parse(answer.value().body, kLimits);
    if (!read.ok()) return read.status().with_context("the list of EndpointSlices");
    std::string version = version_of(read.value());
    const json::Value* items = read.value().find("items");
    if (version.empty() || items == nullptr)
      return {Code::kUnavailable, "the list of EndpointSlices has no items or no resourceVersion"};
    table_.clear();
    if (items->is_array()) {
      for (const json::Value& slice : items->as_array()) table_.put(slice);
    }
    version_ = std::move(version);
    tell(finder);
    return {};
  }

  Status watch(Finder& finder) {
    const seconds span = kWatch + seconds(base::random_u64() % kWatch.count());
    const std::string url =
        url_ + "&watch=1&allowWatchBookmarks=true&timeoutSeconds=" + std::to_string(span.count()) +
        "&resourceVersion=" + escaped(version_);
    Status wrong;
    const auto on_line = [&](std::string_view line) {
      wrong = on_event(line, finder);
      return wrong.ok();
    };
    const Result<HttpAnswer> answer = with_token(url, [&](const HttpRequest& request) {
      return client_.follow(request, on_line, span + kSurplus, [&] { finder.on_standing(); });
    });
    if (!wrong.ok()) return wrong;
    if (!answer.ok()) return answer.status().with_context(options_.api);
    if (answer.value().status == kOk) return {};
    is_gone_ = answer.value().status == kGone;
    return refusal(answer.value());
  }

  Status on_event(std::string_view line, Finder& finder) {
    const Result<json::Value> event = json::parse(line, kLimits);
    const json::Value* type = event.ok() ? event.value().find("type") : nullptr;
    const json::Value* object = event.ok() ? event.value().find("object") : nullptr;
    if (type == nullptr || !type->is_string() || object == nullptr)
      return {Code::kUnavailable, "the watch of EndpointSlices gives a line that is no event"};
    const std::string& kind = type->as_string();
    if (kind == "ERROR") {
      // Whatever it is (most often 410, a version that is gone), only a list helps.
      is_gone_ = true;
      return {Code::kUnavailable, "the API server ends the watch: " + words_of(*object)};
    }
    if (std::string version = version_of(*object); !version.empty()) version_ = std::move(version);
    if (kind == "BOOKMARK") return {};
    if (kind == "DELETED") {
      table_.erase(*object);
    } else {
      table_.put(*object);
    }
    tell(finder);
    return {};
  }

  static std::string version_of(const json::Value& object) {
    const json::Value* metadata = object.find("metadata");
    const json::Value* version = metadata == nullptr ? nullptr : metadata->find("resourceVersion");
    return version != nullptr && version->is_string() ? version->as_string() : std::string();
  }

  void tell(Finder& finder) const {
    EndpointTable::View view = table_.view();
    finder.on_list(std::move(view.members), view.n_refused, view.why);
  }

  const KubernetesOptions options_;
  HttpClient client_;
  std::string url_;
  EndpointTable table_;
  std::string version_;  // empty: a list comes first
  bool is_gone_ = false;
};

}  // namespace

Result<ServiceRoles> parse_services(std::string_view text) {
  ServiceRoles out;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    const std::size_t equals = one.find('=');
    const std::string_view name = one.substr(0, equals);
    // What a name of a Service may have; it goes into a selector.
    if (name.empty() ||
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != name.npos)
      return invalid_argument("the name of a Service must be of a to z, 0 to 9 and -. Given: " +
                              std::string(one));
    Result<Role> role = Role::kMixed;
    if (equals != std::string_view::npos) role = parse_role(one.substr(equals + 1));
    if (!role.ok()) return role.status().with_context("Service " + std::string(name));
    if (!out.emplace(name, role.value()).second)
      return invalid_argument("a Service must be named once. Given twice: " + std::string(name));
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

std::unique_ptr<Membership> make_kubernetes_membership(KubernetesOptions options) {
  return make_watched_list(std::make_unique<KubernetesList>(std::move(options)));
}

}  // namespace coxswain::membership
