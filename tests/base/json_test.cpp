// Tests the reading of JSON: what it makes of a text, what it tells on the way, and that its work
// grows as the text does. Ordered objects have tables of their members from some size on, so that
// small and large ones are tried.

#include "support/json.h"

#include <concepts>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/sanitized.h"

namespace strata {
namespace {

using Ordered = nlohmann::ordered_json;
using Sorted = nlohmann::json;

/// Returns an object of `count` members "k0", "k1", ... of this value.
std::string object_of(int count, const std::string& value) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) {
    text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":" + value;
  }
  return text + "}";
}

}  // namespace

TEMPLATE_TEST_CASE("every kind of value is read", "", Sorted, Ordered) {
  const std::string text =
      R"({"list":[1,-2,3.5,"text",true,false,null,[],{}],"object":{"inner":{"deep":[[7]]}}})";
  const auto json = parse_json<TestType>(text);
  CHECK(json_text(json) == text);
  CHECK(json["list"][0].is_number_unsigned());
  CHECK(json["list"][1].is_number_integer());
  CHECK(json["list"][2].is_number_float());
  CHECK(parse_json<TestType>("7") == 7);
  CHECK(parse_json<TestType>("[/* one */ 1]", JsonComments::kIgnore) == TestType{1});
}

TEMPLATE_TEST_CASE("of members with one key the last one counts", "", Sorted, Ordered) {
  CHECK(json_text(parse_json<TestType>(R"({"a":1,"b":2,"a":{"c":3}})")) ==
        R"({"a":{"c":3},"b":2})");
  std::string many = object_of(1000, "0");
  many.back() = ',';
  const auto json = parse_json<TestType>(many + R"("k3":3,"k999":[4],"new":5,"new":6})");
  CHECK(json.size() == 1001);
  CHECK(json["k3"] == 3);
  CHECK(json["k999"] == TestType{4});
  CHECK(json["new"] == 6);
}

TEST_CASE("members of an ordered object keep their order, however many there are") {
  for (const int count : {1, 15, 16, 17, 18, 1000}) {
    const std::string text = object_of(count, "{}");
    CHECK(json_text(parse_json<Ordered>(text)) == text);
  }
}

TEST_CASE("the parser tells what it meets in the order of the text") {
  std::vector<std::string> told;
  (void)parse_json<Ordered>(
      R"({"a":[1],"b":{}})", JsonComments::kRefuse,
      [&](Ordered::parse_event_t event, const Ordered& value) {
        told.push_back(std::to_string(static_cast<int>(event)) + json_text(value));
      });
  using Event = Ordered::parse_event_t;
  const auto line = [](Event event, const std::string& value) {
    return std::to_string(static_cast<int>(event)) + value;
  };
  CHECK(told == std::vector{line(Event::object_start, "{}"), line(Event::key, "\"a\""),
                            line(Event::array_start, "[]"), line(Event::value, "1"),
                            line(Event::array_end, "[1]"), line(Event::key, "\"b\""),
                            line(Event::object_start, "{}"), line(Event::object_end, "{}"),
                            line(Event::object_end, R"({"a":[1],"b":{}})")});
}

TEMPLATE_TEST_CASE("what a terminal would obey is written by its number", "", Sorted, Ordered) {
  const std::string text = "\x1b[31m \x7f \u009b31m \u202E \u00E4";
  const std::string written = json_text(TestType(text));
  CHECK(written == "\"\\u001b[31m \\u007f \\u009b31m \\u202e \u00E4\"");
  CHECK(parse_json<TestType>(written).template get<std::string>() == text);
}

TEMPLATE_TEST_CASE("a text that is not JSON is refused with its place", "", Sorted, Ordered) {
  for (const std::string text :
       {"", "{", "[1,]", "{\"a\" 1}", "[1] 2", "nul", "[1e999]", "// 1\n1", "\"\xff\""}) {
    INFO(text);
    CHECK_THROWS_AS(parse_json<TestType>(text), typename TestType::exception);
  }
  CHECK_THROWS_WITH(parse_json<TestType>("{\"a\":\n}"), ContainsSubstring("at line 2, column 1"));
}

// Whatever RFC 8259 has no rule for; JSONTestSuite tries these kinds.
TEMPLATE_TEST_CASE("every way not to be JSON is refused", "", Sorted, Ordered) {
  const std::vector<std::string> values{
      // Numbers: signs, zeros, points and exponents where none may be, other notations.
      "+1", "--1", "-", "- 1", "-a", "01", "-01", "00.5", "1.", ".5", "-.5", "1.e2", "1.2.3", "1e",
      "1e+", "1e-", "1E", "1eE2", "1e2.5", "0x1F", "0b1", "1_000", "1 000", "1,000.5x", "1+2",
      "1/2", "Infinity", "-Infinity", "NaN", "-NaN", "1f", "\uFF11",
      // Words.
      "True", "FALSE", "tru", "nulls", "undefined", "None", "a", "*",
      // Texts: other quotes, control characters, escapes that are none or are cut off.
      "'a'", "\u201Ca\u201D", "`a`", "\"a", "a\"", "\"a\nb\"", "\"a\tb\"", "\"\x1f\"", R"("\a")",
      R"("\x41")", R"("\'")", R"("\0")", R"("\U0041")", R"("\u{41}")", R"("\u")", R"("\u12")",
      R"("\u00g0")", R"("\")", R"("\\\")", "\"\\\u00E4\"", R"("\ud83d\u")", R"("\ud83d\u0041")",
      // Bytes that are no UTF-8: alone, cut off, too long, surrogates, beyond Unicode.
      "\"\x80\"", "\"\xff\"", "\"\xc3\"", "\"\xe2\x82\"", "\"\xc0\xaf\"", "\"\xe0\x80\xaf\"",
      "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xf8\x88\x80\x80\x80\"",
      // Lists and objects.
      "[1 2]", "[,1]", "[1,,2]", "[1:2]", "[1", "1]", "[1}", "[[1]", "[1]]", "[\"a\", 1", "[*]",
      "(1)", "{1:2}", "{a:1}", "{'a':1}", "{\"a\"}", "{\"a\" 1}", "{\"a\":}", "{\"a\"::1}",
      "{\"a\",1}", "{\"a\":1 \"b\":2}", "{\"a\":1,}", "{\"a\":1,,}", "{,\"a\":1}", "{\"a\":1]",
      "{[1]:2}", "{null:1}", "{\"a\":1}}", "{\"a\":1", "<a>",
      // Between values: other white space, comments, a mark that is not at the beginning.
      "\u00A0[1]", "[1]\u2060", "[\f1]", "[\v1]", "[1]\u2028", "[1] // a", "[1 /* a */]", "# a\n1",
      "[1]\xEF\xBB\xBF", "[1]x", "[1] [2]", "1 2", "\"a\" \"b\"", "", " ", "\n"};
  for (const std::string& value : values) {
    INFO(value);
    CHECK_THROWS_AS(parse_json<TestType>(value), typename TestType::exception);
    if (value.find_first_not_of(" \n") == value.npos) continue;  // a list of nothing
    CHECK_THROWS_AS(parse_json<TestType>("[" + value + "]"), typename TestType::exception);
    CHECK_THROWS_AS(parse_json<TestType>("{\"a\":" + value + "}"), typename TestType::exception);
    CHECK_THROWS_AS(parse_exact_json<Ordered>(value), Ordered::exception);
  }
}

TEMPLATE_TEST_CASE("what is JSON, however unusual, is read as what it says", "", Sorted, Ordered) {
  const auto text = [](const std::string& json) {
    return parse_json<TestType>(json).template get<std::string>();
  };
  CHECK(text(R"("\u0041\/\"\\\b\f\n\r\t")") == "A/\"\\\b\f\n\r\t");
  CHECK(text(R"("\ud83d\uDE00 \uD834\udd1e")") == "\U0001F600 \U0001D11E");
  CHECK(text("\"\x7f\u2028\u2029\uFFFF\U0010FFFF\"") == "\x7f\u2028\u2029\uFFFF\U0010FFFF");
  CHECK(text(R"("\u0000a")") == std::string("\0a", 2));
  CHECK(text(R"("\\u0041")") == R"(\u0041)");
  const auto number = [](const std::string& json) {
    return parse_json<TestType>(json).template get<double>();
  };
  CHECK(number("-0") == 0);
  CHECK(number("0e1") == 0);
  CHECK(number("1E+2") == 100);
  CHECK(number("1.5e-1") == 0.15);
  CHECK(number("-0.000000000000000000000001") == -1e-24);
  CHECK(number("1e-400") == 0);
  CHECK(number("\t\r\n 7 \n") == 7);
  CHECK(parse_json<TestType>("\xEF\xBB\xBF[]").empty());
  CHECK(parse_json<TestType>(R"({"":1,"a\u0062":[ ]})") ==
        TestType{{"", 1}, {"ab", TestType::array()}});
}

TEST_CASE("what was read of a text that is not JSON is shown on one line") {
  try {
    static_cast<void>(parse_json<Sorted>("\"a\u202E\u009b\"x"));
    FAIL("it was read");
  } catch (const std::exception& error) {
    CHECK_THAT(json_problem(error), !ContainsSubstring("\u202E") && !ContainsSubstring("\u009b"));
  }
}

TEMPLATE_TEST_CASE("a NUL is refused wherever it stands, also behind the value", "", Sorted,
                   Ordered) {
  for (const std::string before : {"", "[1", "[1]", "[1] ", "\"a"}) {
    INFO(before);
    CHECK_THROWS_WITH(parse_json<TestType>(before + '\0' + "]\""), ContainsSubstring("NUL"));
  }
  CHECK(parse_json<TestType>(R"(["\u0000"])")[0].template get<std::string>() ==
        std::string(1, '\0'));
}

TEST_CASE("whole numbers beyond 64 bits keep their digits where that is asked for") {
  const auto exact = parse_exact_json<Ordered>(
      "[18446744073709551616, -9223372036854775809, 18446744073709551615, 1e20]");
  const auto digits = [&](std::size_t i) {
    const auto& bytes = exact[i].get_binary();
    return std::string(bytes.begin(), bytes.end());
  };
  CHECK(digits(0) == "18446744073709551616");
  CHECK(digits(1) == "-9223372036854775809");
  CHECK(exact[2].is_number_unsigned());
  CHECK(exact[3].is_number_float());
}

TEST_CASE("64 levels of objects and lists are read and one more is refused") {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  CHECK_NOTHROW(parse_json<Sorted>(nested(64)));
  CHECK_THROWS_AS(parse_json<Sorted>(nested(65)), ConfigError);
}

// Work that grows with the square of the members takes hours for a million: this would hang. Sorted
// values find a member by its order, whoever looks for it.
TEMPLATE_TEST_CASE("very many members that are objects are each looked at once", "", Sorted,
                   Ordered) {
  constexpr int kMost = std::same_as<TestType, Ordered> ? 1'000'000 : 100'000;
  constexpr int kMany = test::kSanitized ? 10'000 : kMost;
  CHECK(parse_json<TestType>(object_of(kMany, "{}")).size() == kMany);
  std::string list = "[{}";
  for (int i = 1; i < kMany; ++i) list += ",{}";
  CHECK(parse_json<TestType>(list + "]").size() == kMany);
}

}  // namespace strata
