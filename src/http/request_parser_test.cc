#include "http/request_parser.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "http/syntax.h"

namespace coxswain::http {
namespace {

// What a parser made of some bytes, however they were cut.
struct Outcome {
  int status = 0;  // 0: sound so far
  std::size_t n_requests = 0;
  std::string last;  // of the last complete request

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

std::string describe(const RequestParser& parser) {
  const ParsedHead& head = parser.head();
  std::string out = head.method + " " + head.path + "?" + head.query;
  for (const auto& [name, value] : head.headers) {
    out.append("|").append(name).append("=").append(value);
  }
  return out + (head.keep_alive ? "|keep" : "|close");
}

class Feeder {
 public:
  explicit Feeder(const ParserLimits& limits) : parser_(limits) {}

  void feed(std::string_view bytes) {
    while (outcome_.status == 0) {
      const RequestParser::Step step = parser_.parse(bytes);
      bytes.remove_prefix(step.consumed);
      if (step.event == RequestParser::Event::kNeedMore) return;
      if (step.event == RequestParser::Event::kRefused) {
        outcome_.status = parser_.refusal().status;
      } else if (step.event == RequestParser::Event::kComplete) {
        ++outcome_.n_requests;
        outcome_.last = describe(parser_) + "|" + parser_.body();
        parser_.reset();
      }
      if (bytes.empty() && parser_.idle()) return;
    }
  }
  const Outcome& outcome() const { return outcome_; }

 private:
  RequestParser parser_;
  Outcome outcome_;
};

Outcome parse(std::string_view bytes, const ParserLimits& limits = {}) {
  Feeder feeder(limits);
  feeder.feed(bytes);
  return feeder.outcome();
}

int status_of(std::string_view bytes, const ParserLimits& limits = {}) {
  return parse(bytes, limits).status;
}

// `headers` stand between a sound request line with Host and the end of the head.
int status_with(const std::string& headers, const std::string& body = "") {
  return status_of("POST / HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n" + body);
}

const std::vector<std::string>& sound_requests() {
  static const std::string chunked = "5\r\nhello\r\n1;x=\"y\"\r\n!\r\n0\r\nTrailer: z\r\n\r\n";
  static const std::vector<std::string> requests{
      "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /a%20b?c=%20d HTTP/1.0\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n",
      "GET http://example/x?y HTTP/1.1\r\nHost: a\r\nX:   two  words \t\r\n\r\n",
      "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
      "POST /p HTTP/1.1\r\nhost: a\r\ntransfer-encoding: CHUNKED\r\n\r\n" + chunked,
      "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: foo, Close\r\n\r\n",
      "\r\nGET HTTPS://example HTTP/1.1\r\nHost: a\r\n\r\n",
  };
  return requests;
}

TEST(RequestParser, UnderstandsSoundRequests) {
  EXPECT_EQ(parse(sound_requests()[0]).last, "GET /?|Host=a|keep|");
  EXPECT_EQ(parse(sound_requests()[1]).last, "GET /a b?c=%20d|close|");
  EXPECT_EQ(parse(sound_requests()[2]).last, "OPTIONS *?|Host=|keep|");
  EXPECT_EQ(parse(sound_requests()[3]).last, "GET /x?y|Host=a|X=two  words|keep|");
  EXPECT_EQ(parse(sound_requests()[4]).last,
            "POST /p?|Host=a|Content-Length=5|Content-Length=5|keep|hello");
  EXPECT_EQ(parse(sound_requests()[5]).last,
            "POST /p?|host=a|transfer-encoding=CHUNKED|keep|hello!");
  EXPECT_EQ(parse(sound_requests()[6]).last,
            "POST /p?|Host=a|Content-Length=0|Connection=foo, Close|close|");
  EXPECT_EQ(parse(sound_requests()[7]).last, "GET /?|Host=a|keep|");
}

TEST(RequestParser, OneEmptyLineBeforeARequestIsSkipped) {
  const std::string request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  EXPECT_EQ(parse(request + "\r\n" + request).n_requests, 2);
  EXPECT_EQ(status_of("\r\n" + request + "\r\n\r\n" + request), 400);
  RequestParser parser{ParserLimits{}};
  EXPECT_EQ(parser.parse("\r\n").consumed, 2u);
  EXPECT_TRUE(parser.idle()) << "nobody waits for the rest of a request";
}

TEST(RequestParser, CutsChangeNothing) {
  std::string all;
  for (const std::string& request : sound_requests()) all += request;
  std::vector<std::string> inputs = sound_requests();
  inputs.push_back(all);
  inputs.push_back("GET / HTTP/1.1\r\nHost: a\r\n\rx");
  inputs.push_back("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabX\r\n");
  for (const std::string& input : inputs) {
    const Outcome whole = parse(input);
    Feeder bytewise({});
    for (const char c : input) bytewise.feed({&c, 1});
    EXPECT_EQ(bytewise.outcome(), whole) << input;
    for (std::size_t cut = 0; cut <= input.size(); ++cut) {
      Feeder feeder({});
      feeder.feed(std::string_view(input).substr(0, cut));
      feeder.feed(std::string_view(input).substr(cut));
      ASSERT_EQ(feeder.outcome(), whole) << input << " cut at " << cut;
    }
  }
}

TEST(RequestParser, TruncatedRequestsWaitForMore) {
  for (const std::string& request : sound_requests()) {
    for (std::size_t length = 0; length < request.size(); ++length) {
      const Outcome outcome = parse(std::string_view(request).substr(0, length));
      EXPECT_EQ(outcome.n_requests, 0U);
      EXPECT_EQ(outcome.status, 0);
    }
  }
}

TEST(RequestParser, RefusesMalformedRequestLines) {
  for (const char* line : {"GET",
                           "GET /",
                           "GET  / HTTP/1.1",
                           "GET / HTTP/1.1 ",
                           " GET / HTTP/1.1",
                           "GET / HTTP/2.0",
                           "GET / HTTP/1.2",
                           "GET / http/1.1",
                           "PRI * HTTP/2.0",
                           "GET x HTTP/1.1",
                           "GET * HTTP/1.1",
                           "G(T / HTTP/1.1",
                           "GET /%zz HTTP/1.1",
                           "GET /%4 HTTP/1.1",
                           "GET /% HTTP/1.1",
                           "GET /a b HTTP/1.1",
                           "/ HTTP/1.1",
                           "GET /#x HTTP/1.1",
                           "",
                           "CONNECT a:1 HTTP/1.1",
                           "GET / HTTP/1.1\r"}) {
    EXPECT_EQ(status_of(std::string(line) + "\r\nHost: a\r\n\r\n"), 400) << line;
  }
  EXPECT_EQ(status_of("GET / HTTP/1.1\nHost: a\n\n"), 400);
}

TEST(RequestParser, RefusesNoiseAtOnce) {
  EXPECT_EQ(status_of("\x16\x03\x01"), 400);  // TLS
  EXPECT_EQ(status_of(std::string_view("GET \0", 5)), 400);
  EXPECT_EQ(status_of("\xff"), 400);
  EXPECT_EQ(status_of("\r\n\r\n"), 400);
  EXPECT_EQ(status_of("\n"), 400);
}

TEST(RequestParser, CutsDoNotChooseAmongTwoFaults) {
  ParserLimits limits;
  limits.request_line_bytes_max = 20;
  for (const std::size_t n_sound : {0U, 1U, 19U, 20U, 21U}) {
    const std::string line = std::string(n_sound, 'A') + "\xCE" + std::string(30, 'A') + "\r\n";
    const int expected = n_sound < limits.request_line_bytes_max ? 400 : 414;
    EXPECT_EQ(status_of(line, limits), expected) << n_sound;
    Feeder feeder(limits);
    for (const char c : line) feeder.feed(std::string_view(&c, 1));
    EXPECT_EQ(feeder.outcome().status, expected) << n_sound;
  }
}

TEST(RequestParser, RefusesMalformedHeaders) {
  for (const char* header : {"X : y\r\n",
                             "X\r\n",
                             ": y\r\n",
                             " X: y\r\n",
                             "X: y\r\n z\r\n",
                             "X: y\r\n\tz\r\n",
                             "X: a\rb\r\n",
                             "X: a\nY: b\r\n",
                             "X: \x01\r\n",
                             "X: \x7f\r\n",
                             "X y: z\r\n",
                             "X\xc3\xa9: z\r\n",
                             "Host: b\r\n",
                             "host: a\r\n"}) {
    EXPECT_EQ(status_with(header), 400) << header;
  }
  EXPECT_EQ(status_with(std::string("X: a\0b\r\n", 8)), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400) << "no Host";
  EXPECT_EQ(status_with("X: \xc3\xa9\r\n"), 0);
  EXPECT_EQ(status_with("Expect: 100-continue\r\n"), 0);
  EXPECT_EQ(status_with("Expect: miracles\r\n"), 417);
}

TEST(RequestParser, RefusesDoubtfulFraming) {
  for (const char* header : {"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
                             "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
                             "Content-Length: 1\r\nContent-Length: 2\r\n",
                             "Content-Length: 1, 1\r\n",
                             "Content-Length: +1\r\n",
                             "Content-Length: -1\r\n",
                             "Content-Length: 0x1\r\n",
                             "Content-Length: 1 1\r\n",
                             "Content-Length:\r\n",
                             "Content-Length: 9007199254740993\r\n",
                             "Content-Length: 99999999999999999999999\r\n",
                             "Transfer-Encoding: gzip\r\n",
                             "Transfer-Encoding: gzip, chunked\r\n",
                             "Transfer-Encoding: chunked, chunked\r\n",
                             "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                             "Transfer-Encoding: identity\r\n",
                             "Transfer-Encoding: x-chunked\r\n",
                             "Transfer-Encoding:\r\n",
                             "Transfer-Encoding: \013chunked\r\n"}) {
    EXPECT_EQ(status_with(header, "0\r\n\r\n"), 400) << header;
  }
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
}

TEST(RequestParser, RefusesMalformedChunks) {
  for (const char* body : {"\r\n",
                           "x\r\n",
                           "-1\r\n",
                           "+1\r\na\r\n",
                           "0x1\r\na\r\n",
                           " 1\r\na\r\n",
                           "1 \r\na\r\n",
                           "1\na\r\n",
                           "1\r\nab\r\n",
                           "1\r\na\n",
                           "1\r\na\rb",
                           "0000000000000001\r\na\r\n",
                           "ffffffffffffffff\r\n",
                           "1;\x01\r\na\r\n",
                           "0\r\nbad\r\n\r\n",
                           "0\r\n x: y\r\n\r\n"}) {
    EXPECT_EQ(status_with("Transfer-Encoding: chunked\r\n", body), 400) << body;
  }
  EXPECT_EQ(status_with("Transfer-Encoding: chunked\r\n", "000000000000001\r\na\r\n0\r\n\r\n"), 0);
}

TEST(RequestParser, LimitsAreExact) {
  const ParserLimits limits{.request_line_bytes_max = 20,
                            .header_line_bytes_max = 30,
                            .header_count_max = 3,
                            .headers_bytes_max = 60,
                            .body_bytes_max = 10};
  const std::string host = "Host: a\r\n";
  const auto line = [&](std::size_t length) {  // "GET /xx.. HTTP/1.1"
    return status_of("GET /" + std::string(length - 14, 'x') + " HTTP/1.1\r\n" + host + "\r\n",
                     limits);
  };
  EXPECT_EQ(line(20), 0);
  EXPECT_EQ(line(21), 414);
  EXPECT_EQ(status_of("GET /" + std::string(1000, 'x'), limits), 414) << "before the line ends";
  const auto headers = [&](const std::string& more) {
    return status_of("GET / HTTP/1.1\r\n" + host + more + "\r\n", limits);
  };
  EXPECT_EQ(headers("X: " + std::string(27, 'y') + "\r\n"), 0);
  EXPECT_EQ(headers("X: " + std::string(28, 'y') + "\r\n"), 431);
  EXPECT_EQ(headers("A: b\r\nC: d\r\n"), 0);
  EXPECT_EQ(headers("A: b\r\nC: d\r\nE: f\r\n"), 431);
  EXPECT_EQ(headers("X: " + std::string(22, 'y') + "\r\nX: " + std::string(17, 'y') + "\r\n"), 0);
  EXPECT_EQ(headers("X: " + std::string(22, 'y') + "\r\nX: " + std::string(20, 'y') + "\r\n"), 431);
  const auto counted = [&](std::size_t n) {
    return status_of("POST / HTTP/1.1\r\n" + host + "Content-Length: " + std::to_string(n) +
                         "\r\n\r\n" + std::string(n, 'x'),
                     limits);
  };
  EXPECT_EQ(counted(10), 0);
  EXPECT_EQ(counted(11), 413);
  const auto chunked = [&](const std::string& body) {
    return status_of("POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" + body,
                     limits);
  };
  EXPECT_EQ(chunked("5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n"), 0);
  EXPECT_EQ(chunked("5\r\nhello\r\n6\r\n"), 413) << "before the bytes come";
  EXPECT_EQ(chunked("0\r\na: b\r\nc: d\r\ne: f\r\n\r\n"), 0);
  EXPECT_EQ(chunked("0\r\na: b\r\nc: d\r\ne: f\r\ng: h\r\n"), 431);
}

TEST(RequestParser, ChunkExtensionsAreLimited) {
  std::string body;
  for (int i = 0; i < 20; ++i) body += "1;" + std::string(1000, 'x') + "\r\na\r\n";
  EXPECT_EQ(status_with("Transfer-Encoding: chunked\r\n", body), 400);
  EXPECT_EQ(status_with("Transfer-Encoding: chunked\r\n", "1;" + std::string(20'000, 'x')), 400);
}

TEST(RequestParser, DiscardedBodiesAreStillChecked) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const bool sound : {true, false}) {
    RequestParser parser({});
    const RequestParser::Step step = parser.parse(head);
    ASSERT_EQ(step.event, RequestParser::Event::kHead);
    parser.discard_body();
    const auto rest = parser.parse(sound ? "3\r\nabc\r\n0\r\n\r\n" : "3\r\nabcd\r\n0\r\n\r\n");
    EXPECT_EQ(rest.event, sound ? RequestParser::Event::kComplete : RequestParser::Event::kRefused);
    EXPECT_EQ(parser.body(), "");
  }
}

TEST(RequestParser, SurvivesMutatedRequests) {
  std::mt19937 random(1);
  const std::vector<std::string>& sound = sound_requests();
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = sound[random() % sound.size()] + sound[random() % sound.size()];
    for (int n = 0; n < 3; ++n) bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    const Outcome whole = parse(bytes);
    Feeder feeder({});
    std::string_view rest = bytes;
    while (!rest.empty()) {
      const std::size_t n = std::min<std::size_t>(1 + random() % 20, rest.size());
      feeder.feed(rest.substr(0, n));
      rest.remove_prefix(n);
    }
    ASSERT_EQ(feeder.outcome(), whole) << bytes;
  }
}

TEST(Syntax, Pieces) {
  EXPECT_TRUE(is_token("X-a_b!"));
  EXPECT_FALSE(is_token(""));
  EXPECT_FALSE(is_token("a b"));
  EXPECT_EQ(percent_decoded("%41%62%2f+"), "Ab/+");
  EXPECT_EQ(percent_decoded("%25%34%31"), "%41") << "once";
  EXPECT_EQ(percent_decoded("%4"), std::nullopt);
  EXPECT_EQ(percent_decoded("%g0"), std::nullopt);
  EXPECT_TRUE(list_has("a ,KEEP-alive", "keep-alive"));
  EXPECT_FALSE(list_has("keep-alive2", "keep-alive"));
  EXPECT_TRUE(is_request_id("a.B_c-9"));
  EXPECT_FALSE(is_request_id(""));
  EXPECT_FALSE(is_request_id("a b"));
  EXPECT_TRUE(is_request_id(std::string(128, 'a')));
  EXPECT_FALSE(is_request_id(std::string(129, 'a')));
}

}  // namespace
}  // namespace coxswain::http
