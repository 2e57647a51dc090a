"""Built-in functions of texts and hashes: what each returns and how Spark says the same.

Flink's rules are those of SqlFunctionUtils and BinaryStringDataUtil; its answers in the tests come from
ScalarFunctionsTest, StringFunctionsITCase and RegexpFunctionsITCase.
"""

from __future__ import annotations

from penstock.sql.dialect.functions.row import LAST, Family, FunctionRow, method, native, row

S = Family.STRING
BAD_PATTERN = "a pattern that is no regular expression fails the query (Flink: NULL)"

# A word is a run of ASCII letters and digits (Calcite's SqlFunctions.initcap); Spark's ends at a space.
INITCAP = (
    "array_join(transform(split({0}, ''), (__c, __i) -> "
    "CASE WHEN __i > 0 AND substring({0}, __i, 1) RLIKE '[A-Za-z0-9]' "
    "THEN translate(__c, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz') "
    "ELSE translate(__c, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ') END), '')"
)
# The first byte, signed, as in StringCallGen.generateAscii; Spark gives the code point.
ASCII = (
    "CASE WHEN ascii({0}) < 128 THEN ascii({0}) "
    "ELSE CAST(conv(hex(substring(encode({0}, 'UTF-8'), 1, 1)), 16, 10) AS INT) - 256 END"
)
PAD = "CASE WHEN {{1}} < 0 OR {{2}} = '' THEN NULL ELSE {0}({{*}}) END"
# In a replacement only Spark gives $ and \ a meaning (Flink quotes it: Matcher.quoteReplacement).
LITERAL_REPLACEMENT = r"replace(replace({2}, '\\', '\\\\'), '$', '\\$')"
# The last of several equal keys wins, and what is split off behind the last delimiter is dropped
# (String.split), where Spark fails and keeps it.
STR_TO_MAP = (
    "CASE WHEN {{0}} = '' THEN CAST(map() AS MAP<STRING, STRING>) ELSE "
    "transform(array(transform(split(regexp_replace({{0}}, concat('(?:', {0}, ')+$'), ''), {0}), "
    "__p -> split(__p, {1}, 2))), "
    "__all -> map_from_entries(transform(filter(__all, (__p, __i) -> NOT exists("
    "slice(__all, __i + 2, size(__all)), __q -> __q[0] = __p[0])), "
    "__p -> struct(__p[0], get(__p, 1)))))[0] END"
)
# java.net.URL knows these; for any other the answer is NULL.
URL = "CASE WHEN {0} RLIKE '^(?i)(https?|ftp|file|jar|mailto):' THEN "

# Two hexadecimal digits make a byte; of an odd number the first digit makes the byte 0 (EncodingUtils).
UNHEX = (
    "CASE WHEN {0} RLIKE '^[0-9A-Fa-f]*$' THEN "
    "unhex(if(length({0}) % 2 = 1, concat('00', substring({0}, 2)), {0})) END"
)
# JsonQuoteFunction: all that is not ASCII as a \u sequence, control characters only those with a letter.
JSON_QUOTE = (
    r"concat('\"', array_join(transform(split({0}, ''), __c -> CASE "
    r"WHEN __c IN ('\"', '\\', '/') THEN concat('\\', __c) "
    r"WHEN __c = '\b' THEN '\\b' WHEN __c = '\u000c' THEN '\\f' WHEN __c = '\n' THEN '\\n' "
    r"WHEN __c = '\r' THEN '\\r' WHEN __c = '\t' THEN '\\t' "
    r"WHEN ascii(__c) > 127 THEN format_string('\\u%04x', ascii(__c)) ELSE __c END), ''), '\"')"
)
JSON_UNQUOTE = (
    r"CASE WHEN {0} RLIKE '^(?s)\"([^\"\\\\]|\\\\.)*\"$' "
    r"THEN coalesce(CAST(try_parse_json({0}) AS STRING), {0}) ELSE {0} END"
)

ROWS: tuple[FunctionRow, ...] = (
    native(S, "CHAR_LENGTH", "INT", "CHAR_LENGTH('äöü')", 1),
    native(S, "CHARACTER_LENGTH", "INT", "CHARACTER_LENGTH('abc')", 1),
    native(S, "UPPER", "STRING", "UPPER('aB')", 1),
    native(S, "LOWER", "STRING", "LOWER('aB')", 1),
    row(
        S,
        "PRINTF",
        "STRING",
        "PRINTF('%s-%d', 'a', 7)",
        *[f"format_string({', '.join(f'{{{n}}}' for n in range(count))})" for count in range(1, 9)],
        note="a format that fits no argument fails the query (Flink: NULL)",
    ),
    row(S, "LTRIM", "STRING", "LTRIM('  a ')", "ltrim({0})", "trim(LEADING {1} FROM {0})"),
    row(S, "RTRIM", "STRING", "RTRIM('  a ')", "rtrim({0})", "trim(TRAILING {1} FROM {0})"),
    row(S, "BTRIM", "STRING", "BTRIM('xax', 'x')", "trim({0})", "trim(BOTH {1} FROM {0})"),
    native(S, "REPEAT", "STRING", "REPEAT('ab', 2)", 2),
    row(
        S,
        "REGEXP_REPLACE",
        "STRING",
        "REGEXP_REPLACE('foobar', 'oo|ar', '')",
        f"regexp_replace({{0}}, {{1}}, {LITERAL_REPLACEMENT})",
        least=3,
        note=BAD_PATTERN,
    ),
    native(S, "STARTSWITH", "BOOLEAN", "STARTSWITH('abc', 'a')", 2),
    native(S, "ENDSWITH", "BOOLEAN", "ENDSWITH('abc', 'c')", 2),
    row(
        S,
        "REPLACE",
        "STRING",
        "REPLACE('ababab', 'abab', 'z')",
        f"if({{1}} = '', regexp_replace({{0}}, '', {LITERAL_REPLACEMENT}), replace({{0}}, {{1}}, {{2}}))",
        least=3,
    ),
    native(S, "REGEXP_COUNT", "INT", r"REGEXP_COUNT('a.b.c', '\.')", 2, note=BAD_PATTERN),
    # Flink: the whole match unless told otherwise, and NULL (Spark: '') where nothing matches.
    row(
        S,
        "REGEXP_EXTRACT",
        "STRING",
        "REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)",
        "CASE WHEN {0} RLIKE {1} THEN regexp_extract({0}, {1}, 0) END",
        "CASE WHEN {0} RLIKE {1} THEN regexp_extract({0}, {1}, CAST({2} AS INT)) END",
        least=2,
        note=f"{BAD_PATTERN}; so does a group that is not there; a group that took no part is '' (Flink: NULL)",
    ),
    row(
        S,
        "REGEXP_EXTRACT_ALL",
        "ARRAY<STRING>",
        r"REGEXP_EXTRACT_ALL('100-200, 300-400', '(\d+)-(\d+)', 1)",
        "regexp_extract_all({0}, {1}, 1)",
        "regexp_extract_all({0}, {1}, CAST({2} AS INT))",
        least=2,
        note=f"{BAD_PATTERN}; so does a group that is not there; a group that took no part is '' (Flink: NULL)",
    ),
    native(S, "REGEXP_INSTR", "INT", r"REGEXP_INSTR('abc123', '\d')", 2, note=BAD_PATTERN),
    native(S, "REGEXP_SUBSTR", "STRING", r"REGEXP_SUBSTR('abc123', '\d')", 2, note=BAD_PATTERN),
    row(
        S,
        "TRANSLATE",
        "STRING",
        "TRANSLATE('www.apache.org', 'abc', '123')",
        "translate({0}, coalesce({1}, ''), coalesce({2}, ''))",
        least=3,
    ),
    row(S, "INITCAP", "STRING", "INITCAP('a-b fLinK')", INITCAP),
    FunctionRow(
        name="CONCAT",
        family=S,
        returns="STRING",
        method=True,
        least=1,
        native=True,
        example="CONCAT('AA', 'BB', 'CC')",
    ),
    FunctionRow(
        name="CONCAT_WS",
        family=S,
        returns="STRING",
        method=True,
        least=2,
        native=True,
        example="CONCAT_WS('~', 'AA', CAST(NULL AS STRING), 'BB', '', 'CC')",
    ),
    row(S, "LPAD", "STRING", "LPAD('hi', 4, '??')", PAD.format("lpad"), least=3),
    row(S, "RPAD", "STRING", "RPAD('hi', 4, '??')", PAD.format("rpad"), least=3),
    row(
        S,
        "FROM_BASE64",
        "STRING",
        "FROM_BASE64('aGVsbG8gd29ybGQ=')",
        "CAST(unbase64(CAST({0} AS STRING)) AS STRING)",
    ),
    # one line (Base64.getEncoder), where Spark breaks it after 76 characters, as MIME does
    row(
        S,
        "TO_BASE64",
        "STRING",
        "TO_BASE64('hello world')",
        r"replace(base64({0}), '\r\n', '')",
    ),
    row(S, "ASCII", "TINYINT", "ASCII('abc')", f"CAST({ASCII} AS TINYINT)"),
    row(S, "CHR", "STRING", "CHR(353)", "chr({0})"),
    native(
        S,
        "DECODE",
        "STRING",
        "DECODE(ENCODE('abc', 'UTF-16LE'), 'UTF-16LE')",
        2,
        note="bytes that the character set has not fail the query (Flink: a replacement character)",
    ),
    native(
        S,
        "ENCODE",
        "BYTES",
        "ENCODE('abc', 'UTF-8')",
        2,
        note="a character that the character set has not fails the query (Flink: '?')",
    ),
    native(S, "INSTR", "INT", "INSTR('Tech on the net', 'e')", 2),
    native(S, "LEFT", "STRING", "LEFT('Hello', 3)", 2),
    native(S, "RIGHT", "STRING", "RIGHT('Hello', 3)", 2),
    row(
        S,
        "LOCATE",
        "INT",
        "LOCATE('aa', 'aaads', 2)",
        "locate({0}, {1})",
        "if({2} IS NULL, NULL, locate({0}, {1}, {2}))",
        least=2,
    ),
    row(S, "URL_DECODE", "STRING", "URL_DECODE('a+b%2F')", "try_url_decode({0})"),
    row(S, "URL_ENCODE", "STRING", "URL_ENCODE('https://a/b c')", "url_encode({0})"),
    row(
        S,
        "PARSE_URL",
        "STRING",
        "PARSE_URL('http://facebook.com/path1/p.php?k1=v1&k2=v2#Ref1', 'QUERY', 'k1')",
        f"{URL}try_parse_url({{0}}, {{1}}) END",
        f"{URL}try_parse_url({{0}}, {{1}}, {{2}}) END",
        least=2,
        note="NULL of a URL with characters that RFC 2396 does not allow, such as a space (Flink: the part)",
    ),
    row(
        S,
        "REGEXP",
        "BOOLEAN",
        r"REGEXP('100-200', '(\d+)')",
        "({0} RLIKE {1} AND {1} <> '')",
        least=2,
        note="a pattern that is no regular expression fails the query (Flink: FALSE)",
    ),
    native(S, "REVERSE", "STRING", "REVERSE('hi')", 1),
    method(S, "SPLIT_INDEX", "STRING", "SPLIT_INDEX('a||b', '||', 1)", 3, 3),
    row(
        S,
        "STR_TO_MAP",
        "MAP<STRING, STRING>",
        "STR_TO_MAP('k1=v1,k2=v2')",
        STR_TO_MAP.format("','", "'='"),
        STR_TO_MAP.format("{1}", "'='"),
        STR_TO_MAP.format("{1}", "{2}"),
    ),
    method(S, "SUBSTR", "STRING", "SUBSTR('abcdef', 2, 3)", 2, 3),
    row(S, "JSON_QUOTE", "STRING", "JSON_QUOTE('a \"b\"')", JSON_QUOTE),
    row(
        S,
        "JSON_UNQUOTE",
        "STRING",
        "JSON_UNQUOTE('\"abc\"')",
        JSON_UNQUOTE,
        note='a text in quotes with a bare quote inside, such as "a"b", stays as it is (Flink: a"b)',
    ),
    FunctionRow(
        name="ELT",
        family=S,
        returns=LAST,
        any_form="get(array({rest}), try_cast({0} AS INT) - 1)",
        least=2,
        example="ELT(2, 'scala-1', 'java-2', 'go-3')",
    ),
    row(Family.HASH, "MD5", "STRING", "MD5('test')", "md5({0})"),
    row(Family.HASH, "SHA1", "STRING", "SHA1('test')", "sha1({0})"),
    *(
        row(Family.HASH, f"SHA{n}", "STRING", f"SHA{n}('Hello')", f"sha2({{0}}, {n})")
        for n in (224, 256, 384, 512)
    ),
    row(Family.HASH, "SHA2", "STRING", "SHA2('test', 224)", "sha2({0}, {1})", least=2),
    row(Family.ARITHMETIC, "UNHEX", "BYTES", "UNHEX('466C696E6B')", UNHEX),
)
