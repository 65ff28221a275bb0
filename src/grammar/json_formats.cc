#include "grammar/json_formats.h"

#include <initializer_list>

namespace coxswain::grammar {
namespace {

std::string group(std::string_view pattern) {
  return "(?:" + std::string(pattern) + ")";
}

std::string join(std::initializer_list<std::string> parts, std::string_view between) {
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += between;
    out += part;
  }
  return out;
}

// RFC 3339, section 5.6, with the days that each month has (appendix C for February).
std::string date() {
  const std::string year = "[0-9]{4}";
  const std::string leap_year =
      group("[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00");
  const std::string day28 = group("0[1-9]|1[0-9]|2[0-8]");
  return group(year + "-" +
               group("(?:0[1-9]|1[0-2])-" + day28 + "|(?:0[13-9]|1[0-2])-(?:29|30)|" +
                     "(?:0[13578]|1[02])-31") +
               "|" + leap_year + "-02-29");
}

// Without leap seconds: which minutes have one cannot be told from the text.
std::string time() {
  return "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"
         "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
}

// RFC 3339, appendix A.
std::string duration() {
  const std::string n = "[0-9]{1,18}";
  const std::string minutes = n + "M(?:" + n + "S)?";
  const std::string in_day = "T" + group(n + "H(?:" + minutes + ")?|" + minutes + "|" + n + "S");
  const std::string months = n + "M(?:" + n + "D)?";
  const std::string days = group(n + "Y(?:" + months + ")?|" + months + "|" + n + "D");
  return "P" + group(days + group(in_day) + "?|" + in_day + "|" + n + "W");
}

// RFC 1123: labels of at most 63 characters, 253 altogether. Without "--", which at the third place of a label begins
// an encoding that would have to be valid in turn.
std::string hostname(int dots_max) {
  const std::string label = "[A-Za-z0-9]{1,30}(?:-[A-Za-z0-9]{1,8}){0,3}";
  return label + "(?:\\." + label + "){0," + std::to_string(dots_max) + "}";
}

// RFC 5321, section 4.1.2: a Mailbox with a Dot-string, at most 64 characters of it; 254 altogether.
std::string email() {
  const std::string text = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";
  return text + "{1,30}(?:\\." + text + "{1,10}){0,3}@" + hostname(2);
}

std::string ipv4() {
  const std::string byte = group("25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9]");
  return byte + "(?:\\." + byte + "){3}";
}

// RFC 3986, section 3.2.2: IPv6address.
std::string ipv6() {
  const std::string h = "[0-9A-Fa-f]{1,4}";
  const std::string ls32 = group(h + ":" + h + "|" + ipv4());
  const auto before = [&](int n) {
    return "(?:(?:" + h + ":){0," + std::to_string(n) + "}" + h + ")?";
  };
  const auto pairs = [&](int n) { return "(?:" + h + ":){" + std::to_string(n) + "}"; };
  return join({pairs(6) + ls32,
               "::" + pairs(5) + ls32,
               before(0) + "::" + pairs(4) + ls32,
               before(1) + "::" + pairs(3) + ls32,
               before(2) + "::" + pairs(2) + ls32,
               before(3) + "::" + h + ":" + ls32,
               before(4) + "::" + ls32,
               before(5) + "::" + h,
               before(6) + "::"},
              "|");
}

// RFC 3986, appendix A.
struct Uri {
  const std::string encoded = "%[0-9A-Fa-f]{2}";
  const std::string pchar = group("[A-Za-z0-9._~!$&'()*+,;=:@-]|" + encoded);
  const std::string no_colon = group("[A-Za-z0-9._~!$&'()*+,;=@-]|" + encoded);
  const std::string host =
      group("\\[" + group(ipv6()) + "\\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|" + encoded + ")*");
  const std::string authority =
      "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" + encoded + ")*@)?" + host + "(?::[0-9]{0,5})?";
  const std::string more = "(?:/" + pchar + "*)*";
  const std::string absolute = "/(?:" + pchar + "+" + more + ")?";
  const std::string tail = "(?:\\?(?:" + pchar + "|[/?])*)?(?:#(?:" + pchar + "|[/?])*)?";

  std::string uri() const {
    return "[A-Za-z][A-Za-z0-9+.-]*:" +
           group("//" + authority + more + "|" + absolute + "|" + pchar + "+" + more + "|") + tail;
  }
  std::string reference() const {
    return uri() + "|" +
           group("//" + authority + more + "|" + absolute + "|" + no_colon + "+" + more + "|") +
           tail;
  }
};

// RFC 6570, with the operators of levels 1 to 4.
std::string uri_template() {
  const std::string variable = "[A-Za-z0-9_]{1,40}(?:\\*|:[1-9][0-9]{0,3})?";
  return "(?:[A-Za-z0-9._~:/?#@!$&()*+,;=-]|%[0-9A-Fa-f]{2}|\\{[+#./;?&]?" + variable + "(?:," +
         variable + ")*\\})*";
}

}  // namespace

std::optional<std::string> format_pattern(std::string_view format, bool with_lengths) {
  const bool is_uri = format.starts_with("uri") || format.starts_with("iri");
  if (with_lengths && is_uri) {
    const std::string rest = "[A-Za-z0-9][A-Za-z0-9._~/-]*";
    return group("https://" + rest + "|http://" + rest);
  }
  const std::string pointer = "(?:/(?:[^/~]|~[01])*)*";
  if (format == "date") return date();
  if (format == "time") return time();
  if (format == "date-time") return date() + "T" + time();
  if (format == "duration") return duration();
  if (format == "email" || format == "idn-email") return email();
  if (format == "hostname" || format == "idn-hostname") return hostname(3);
  if (format == "ipv4") return ipv4();
  if (format == "ipv6") return ipv6();
  if (format == "uri" || format == "iri") return Uri().uri();
  if (format == "uri-reference" || format == "iri-reference") return Uri().reference();
  if (format == "uri-template") return uri_template();
  if (format == "uuid") return "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
  if (format == "json-pointer") return pointer;
  if (format == "relative-json-pointer") return "(?:0|[1-9][0-9]{0,9})(?:#|" + pointer + ")";
  // Simple ones of those that every engine reads.
  if (format == "regex") return R"(\^?(?:[A-Za-z0-9 _@:/,-]|\.\*?|\\[dwsDWS.][+*]?)*\$?)";
  return std::nullopt;
}

}  // namespace coxswain::grammar
