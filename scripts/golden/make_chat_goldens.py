#!/usr/bin/env python3
"""Makes tests/chat/goldens.json: small templates, each for one feature, and what Jinja2 makes of them.

  scripts/golden/make_chat_goldens.py tests/chat/goldens.json

The templates are set up as transformers does it. Needs transformers and jinja2; versions stand in the file.
"""

import json
import os
import sys
import time

import jinja2
import transformers
from transformers.utils.chat_template_utils import render_jinja_template

CHAT = {"messages": [
    {"role": "system", "content": " Be brief.  "},
    {"role": "user", "content": "What is \u00e9l\u00e8ve?\n<b>\"x\" & 'y'</b> \u4f60\u597d \U0001f600"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nA pupil.", "tool_calls": [
        {"type": "function", "id": "c1", "function": {
            "name": "look", "arguments": {"word": "\u00e9l\u00e8ve", "n": 2, "r": 0.5, "ok": True, "no": None,
                                          "list": [1, "a", []], "empty": {}}}}]},
    {"role": "tool", "name": "look", "content": "", "data": {"word": "\u00e9l\u00e8ve", "n": 2, "r": 0.5, "ok": True, "no": None,
                                                           "list": [1, "a", []], "empty": {}}},
    {"role": "assistant", "content": None}],
    "tools": [{"type": "function", "function": {"name": "look", "description": "Looks \"up\" \u00e9", "parameters": {
        "type": "object", "properties": {"word": {"type": "string"}, "N": {"type": "integer"}}}}}]}

FEATURES = {
    "trim and lstrip of blocks": "a\n  {% if true %}\n  b\n  {% endif %}\n c {% if true %} d {% endif %} \n e\n",
    "dashes and plus signs": "a \n {%- if true -%} \n b {%+ if true +%}\n c {% endif -%}\n d {%- endif %}\n {{- 1 -}} \n {{ 2 }}\n",
    "comments": "a {# one #}\n{#- two -#} b\n  {# three #}\nc{#+ four +#}\n d {#- #}",
    "raw": "x {% raw %}\n {{ no }} {% if %}\n{% endraw %}\ny {%- raw -%} z {%- endraw -%} w",
    "line ends": "a\r\nb\rc\n{{ 'x\ny' }}\n\n",
    "string escapes": r"""{{ 'a\n\t\\\'\"' }}{{ "\x41\u00e9\U0001f600\101\q" }}{{ 'a' "b" 'c' }}é{{ 'é' }}""",
    "numbers": "{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1_000 }} {{ 1.5e3 }} {{ 1e20 }} {{ 0.00001 }} {{ -(3) }} {{ +2 }} {{ 6 / 3 }} {{ 1.0 }} {{ 0.1 + 0.2 }} {{ 2 ** -1 }}",
    "precedence": "{{ 'a' + 1 ~ 2 }}|{{ 'a' ~ 1 * 2 }}|{{ not 1 == 2 }}|{{ true or false and false }}|{{ 2 * 3 ~ 4 }}|{{ -2 ** 2 }}|{{ 'a' + 'b' | upper }}|{{ not false and true }}",
    "comparisons": "{{ 1 < 2 <= 2 > 1 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ 'é' in 'élève' }} {{ 3 not in [1, 2] }} {{ 'role' in messages[0] }} {{ none == none }} {{ [1, [2]] == [1, [2]] }} {{ (1,) == [1] }} {{ {'a': 1} == {'a': 1} }} {{ x == y }}",
    "undefined": "[{{ x }}][{{ x is defined }}][{{ messages[0].nothing }}][{{ x | default('d') }}][{{ '' | default('e', true) }}][{{ x or 'f' }}][{{ x | length }}][{% for i in x %}{% else %}none{% endfor %}][{{ messages[9] is undefined }}][{{ 1 if false }}]",
    "if and elif": "{% for i in range(4) %}{% if i == 0 %}a{% elif i == 1 %}b{% elif i == 2 %}c{% else %}d{% endif %}{% endfor %}",
    "loop variables": "{% for i in ['x', 'y', 'z'] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('o', 'e') }}{{ loop.depth }}{{ loop.changed(i == 'x') }} {% endfor %}",
    "loops with a condition": "{% for m in messages if m.role != 'tool' %}{{ loop.index }}/{{ loop.length }} {{ m.role }} {% else %}none{% endfor %}{% for m in messages if m.role == 'nobody' %}x{% else %}nobody{% endfor %}",
    "loops over pairs and keys": "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}{% for c in 'aé' %}[{{ c }}]{% endfor %}{% for k, v in messages[2].tool_calls[0].function.arguments | items %}{{ k }}={{ v }};{% endfor %}",
    "break and continue": "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "scopes": "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}{% with x = 5, y = x %}{{ x }}{{ y }}{% set x = 6 %}{% endwith %}{{ x }}",
    "unpacking": "{% set a, b = 1, 2 %}{{ b }}{{ a }}{% for x, y in [(1, 2), [3, 4]] %}{{ x }}{{ y }}{% endfor %}",
    "set blocks": "{% set x %}a{{ 1 + 1 }} {% endset %}[{{ x }}]{% set y | trim | upper %} b {% endset %}[{{ y }}]{% set ns = namespace() %}{% set ns.z %}q{% endset %}{{ ns.z }}",
    "macros": "{% macro f(a, b='x', c=a) %}({{ a }}{{ b }}{{ c }}){% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=3, a=4) }}{{ f() }}{% macro g(n) %}{% if n > 0 %}{{ n }}{{ g(n - 1) }}{% endif %}{% endmacro %}{{ g(3) }}{{ f('<') | length }}",
    "call blocks": "{% macro wrap(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call wrap('b') %}in{{ 1 }}{% endcall %}{% macro each(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(x) each([1, 2]) %}[{{ x }}]{% endcall %}",
    "filter blocks": "{% filter upper | trim %} a{{ 'b' }} {% endfilter %}!",
    "generation blocks": "{% for m in messages[:3] %}{{ m.role }}: {% generation %}{{ m.content }}{% set x = 1 %}{% endgeneration %}{{ x }}\n{% endfor %}",
    "strip": "{% for m in messages[:2] %}[{{ m.content.strip() }}][{{ m.content.lstrip() }}][{{ m.content | trim }}]{% endfor %}[{{ 'xxaxx'.strip('x') }}][{{ 'abcba'.rstrip('ab') }}][{{ '\u3000\u00a0a\u2003' | trim }}][{{ '--a-'.lstrip('-') }}]",
    "split": "{{ 'a,b,,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ ' a  b '.split() }}{{ 'a b c'.split(none, 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ messages[2].content.split('</think>')[-1].lstrip('\\n') }}{{ 'a\nb\r\nc'.splitlines() }}{{ ''.split(',') }}{{ ''.split() }}",
    "slices": "{{ 'aé你😀'[1:3] }}{{ 'aé你😀'[-1] }}{{ 'aé你😀'[::-1] }}{{ 'abcdef'[::2] }}{{ 'abc'[5:] }}{{ [1, 2, 3, 4][1:] }}{{ [1, 2, 3][::-1] }}{{ [1, 2, 3][-2:] }}{{ 'abc'[:-1] }}{{ (1, 2, 3)[:2] }}{{ 'abcdef'[4:1:-1] }}{{ messages[1:2][0].role }}{{ 'abc'.1 }}",
    "string methods": "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'aXbX'.replace('X', '--') }}{{ 'aXbX'.replace('X', '-', 1) }}{{ 'aBc'.upper() }}{{ 'aBc'.lower() }}{{ \"it's a-b\".title() }}{{ 'hELLO w'.capitalize() }}{{ '{} and {}'.format(1, 'b') }}{{ '{1}{0}{x}{{}}'.format(1, 2, x=3) }}{{ ','.join(['a', 'b']) }}{{ 'abcabc'.find('c') }}{{ 'éc'.find('c') }}{{ 'abcabc'.rfind('c') }}{{ 'abab'.count('ab') }}{{ '12'.isdigit() }}{{ ''.isdigit() }}{{ 'prefix'.removeprefix('pre') }}{{ 'a.txt'.removesuffix('.txt') }}",
    "percent formats": "{{ '%s-%s' % ('a', 2) }} {{ '%d%%' % 5 }} {{ '%.2f' % 1.005 }} {{ '%s' % [1] }} {{ '%r' % 'a' }} {{ 'x%sy' | format('z') }}",
    "dict methods": "{{ messages[0].get('content') }}{{ messages[0].get('x', 'y') }}{{ messages[0].get('x') }}{{ messages[0].keys() | list }}{{ messages[0].values() | list }}{{ {'a': 1}.items() | list }}{{ dict(a=1, b=2) }}{{ dict({'a': 1}, a=2) }}",
    "text of values": "{{ none }}{{ true }}{{ [1, 'a', \"it's\", none, 1.5] }}{{ {'a': [1], 2: 'b\\n'} }}{{ (1,) }}{{ () }}{{ messages[3].data }}{{ 'x' ~ none ~ 1.0 }}{{ [] ~ {} }}",
    "tojson": "{{ messages[2].tool_calls | tojson }}\n{{ tools | tojson(indent=2) }}\n{{ tools[0] | tojson(indent=4, ensure_ascii=true) }}\n{{ {'b': 1, 'a': [1.0, 1e20, none, true]} | tojson(sort_keys=true) }}\n{{ [1, {'a': 2}] | tojson(separators=(',', ':')) }}\n{{ '</é\"\\\\\\n\\x01\\x7f😀' | tojson }}{{ '😀' | tojson(ensure_ascii=true) }}{{ {1: 2, none: 3, true: 4} | tojson }}{{ [] | tojson(indent=2) }}",
    "list filters": "{{ [3, 1, 2] | sort }}{{ ['b', 'A', 'c'] | sort }}{{ ['b', 'A'] | sort(case_sensitive=true) }}{{ [3, 1] | sort(reverse=true) }}{{ messages | map(attribute='role') | list }}{{ messages | map(attribute='name', default='-') | list }}{{ ['a', 'b'] | map('upper') | join(',') }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('content') | list | length }}{{ [1, 2, 3, 4] | select('odd') | list }}{{ [1, 2, 3, 4] | reject('gt', 2) | list }}{{ [1, 2] | first }}{{ [1, 2] | last }}{{ [] | first is undefined }}{{ [1, 1, 2] | unique | list }}{{ ['a', 'A'] | unique | list }}{{ [1, 2] | reverse | list }}{{ 'aé' | reverse }}{{ [1, 2, 3] | batch(2) | list }}{{ [1, 2, 3] | batch(2, 0) | list }}{{ [3, 1] | min }}{{ [3, 1] | max }}{{ [1, 2] | sum }}{{ messages | map(attribute='role') | unique | join(' ') }}{{ none | select | list }}{{ messages | join('|', attribute='role') }}",
    "dictsort": "{{ {'b': 1, 'A': 2, 'c': 0} | dictsort }}{{ {'b': 1, 'A': 2} | dictsort(true) }}{{ {'b': 1, 'a': 2} | dictsort(by='value', reverse=true) }}{% for k, v in tools[0].function.parameters.properties | dictsort %}{{ k }}{{ v.type }}{% endfor %}",
    "text filters": "{{ 'aXb' | replace('X', '-') }}{{ 5 | string + '!' }}{{ 'abc' | length }}{{ 'é你' | count }}{{ \"it's a-b (c)\" | title }}{{ 'hELLO' | capitalize }}{{ 'a\\n\\nb' | indent }}{{ 'a\\nb\\n' | indent(2, true) }}{{ 'a\\n\\nb' | indent('> ', first=true, blank=true) }}{{ 'ab' | list }}{{ '<' | safe }}{{ ('<' | safe) + '>&' }}{{ '  x ' | trim }}{{ 'xxa' | trim('x') }}",
    "number filters": "{{ '12' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ '3.7' | int }} {{ ' 5 ' | int }} {{ '1.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ 2.5 | round }} {{ 2.567 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ 2.9 | round(method='floor') }} {{ -3 | abs }} {{ true | int }} {{ 42 | round }}",
    "tests": "{{ 'a' is string }}{{ 1 is string }}{{ {} is mapping }}{{ [] is mapping }}{{ [] is sequence }}{{ 'a' is iterable }}{{ 1 is iterable }}{{ {} is sequence }}{{ true is boolean }}{{ 1 is boolean }}{{ 1 is number }}{{ true is number }}{{ 1 is integer }}{{ true is integer }}{{ 1.0 is float }}{{ true is true }}{{ 1 is true }}{{ false is false }}{{ none is none }}{{ x is none }}{{ 1 is odd }}{{ 2 is even }}{{ 9 is divisibleby 3 }}{{ 1 is eq 1 }}{{ 1 is equalto(1) }}{{ 1 is ne 2 }}{{ 1 is in [1] }}{{ 'a' is in 'ab' }}{{ 'A' is upper }}{{ 'a' is lower }}{{ 1 is sameas true }}{{ 3 is gt 2 }}{{ 3 is not none }}{{ x is not defined }}{{ 'tojson' is filter }}{{ 'nope' is filter }}{{ 'odd' is test }}{{ range is callable }}{{ 1 is string or 1 is number }}",
    "range": "{{ range(3) | list }}{{ range(1, 4) | list }}{{ range(5, 0, -2) | list }}{% for i in range(0) %}x{% endfor %}",
    "strftime_now": "{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%Y-%m-%d %H:%M') }}",
    "conditional expressions": "{{ 'a' if true else 'b' }}{{ 'a' if false else 'b' if false else 'c' }}{{ ('x' if messages else 'y') ~ 'z' }}{{ [1 if false] | length }}",
    "braces within tags": "{{ {'a': {'b': 1}}['a']['b'] }}{{ '}}' }}{% set x = {'c': {}} %}{{ x.c }}{{ '{%' }}",
    "lists and repetition": "{{ [1] + [2] }}{{ 'ab' * 2 }}{{ [0] * 3 }}{{ 2 * 'x' }}{{ (1,) + (2,) }}{{ [1, 2,] }}{{ {'a': 1,} }}",
    "integers beyond 64 bits": "{{ 12345678901234567890123 }} {{ -9223372036854775808 }} {{ 9223372036854775807 + 1 }} {{ -9223372036854775807 - 2 }} {{ 9223372036854775807 * -9223372036854775807 }} {{ -(-9223372036854775808) }} {{ 2 ** 62 * 4 }} {{ 99999999999999999999 > 1 }} {{ -99999999999999999999 < 1 }} {{ 99999999999999999999 == 99999999999999999999 }} {{ 99999999999999999999 is integer }} {{ [99999999999999999999] | tojson }} {{ 99999999999999999999 | string }} {{ 99999999999999999999 | abs }} {{ '%d' % 99999999999999999999 }} {{ -9223372036854775808 // -1 }}",
    "numbers of other bases": "{{ 0x1F }} {{ 0X_f_f }} {{ 0o17 }} {{ 0b1_01 }} {{ -0xff }} {{ 0xffffffffffffffff }} {{ 0x123456789abcdef0123456789 }} {{ 0x1e5 }} {{ 0x10 + 0b1 }} {{ [1, 2][0b1] }}",
    "numbers of texts in other bases": "{% for t in ['ff', '0xff', ' 0XF_F ', '-0b11', '0b11', '0o17', 'z', '_f', 'f_', '010', '00', '0x', '0x_1', '12', '1.5', '+-5', '', 'ffffffffffffffffffff', '-'] %}{% for b in [0, 2, 8, 10, 16, 36] %}{{ t | int(base=b) }} {% endfor %};{% endfor %}{{ '11' | int(7, 2) }} {{ '9' | int(7, 2) }} {{ 'x' | int(7, 2) }} {{ '1' | int(base=1) }} {{ '1' | int(base=37) }} {{ 3.9 | int(base=16) }}",
    "numbers of texts": "{% for t in ['12345678901234567890123', '1_000', '1__0', '_1', '1_', '1e30', ' -7 ', '+5', '+-5', '--5', '1e400', 'inf', 'nan', '-inf', '0x10', '1.9', '-1.9', '1_0.5', '', '.5', '5.', '1e', '007', '\\u00a05\\u2003'] %}{{ t | int }} {{ t | float }};{% endfor %}{{ 1e30 | int }} {{ -1e30 | int }} {{ 1e15 | int }}",
    "reprs": "{{ ['\\u200b\\u00ad\\u2028\\ufeff\\ue000\\U000e0001\\U0001f600\\u3000\\u0378\\x7f\\x85\\x1c'] }}",
    "names of other scripts": "{% set \u00e9l\u00e8ve = 1 %}{{ \u00e9l\u00e8ve }}{% set \u540d1 = 2 %}{{ \u540d1 }}{% set _\u0301 = 3 %}{{ _\u0301 }}",
    "white space of other scripts": "{%\u00a0if\u2003true\u3000%}a{% endif %}[{{ 'a\u00a0b-c\u2003d' | title }}]{{\u00a0\u20281 }}b\u2003{{- 2 -}}\u3000c",
    "what is the same": "{% set a = [1] %}{% set b = {'k': 1} %}{{ a is sameas a }}{{ a is sameas [1] }}{{ b is sameas b }}{{ b is sameas {'k': 1} }}{{ none is sameas none }}{{ 1 is sameas 1 }}{{ 1 is sameas 1.0 }}",
    "safe texts": "{% set s = ' <a>\\n<b> ' | safe %}{{ (s | trim) + '<' }}|{{ (s | upper) + '<' }}|{{ (s | indent) + '<' }}|{{ (s | string) + '<' }}|{{ (s | replace('a', 'c')) + '<' }}|{{ (s | reverse) + '<' }}|{{ s.strip() + '<' }}|{{ (s | title) + '<' }}|{{ (s ~ '<') + '<' }}|{{ (s | lower | capitalize) + '<' }}",
    "digits and lines": "{{ '\u0663\u00b2'.isdigit() }}{{ '\u00bd'.isdigit() }}{{ '\u2460'.isdigit() }}{{ 'a\\x85b\\u2028c\\u2029d\\x1ce\\r\\nf\\n'.splitlines() }}{{ 'a\\nb\\r\\n\\u2028c'.splitlines(true) }}{{ 'a\\n'.splitlines(keepends=true) }}",
    "views": "{{ range(3) }}{{ range(1, 4) }}{{ range(0, 9, 2) }}{{ {'a': 1}.keys() }}{{ {'a': 1}.values() }}{{ {'a': 1, 'b': [2]}.items() }}{{ {}.keys() }}{{ range(3)[1] }}{{ range(5) | length }}{{ {'a': 1}.keys() is sequence }}{{ range(2) is sequence }}{{ 'a' in {'a': 1}.keys() }}{{ range(3) == [0, 1, 2] }}{{ {'a': 1}.keys()[0] is defined }}{{ {'b': 1, 'a': 2}.items() | sort }}",
    "ASCII JSON": "{{ '\u00e9\\x7f\\x1f~' | tojson(ensure_ascii=true) }}{{ '\\x7f' | tojson }}",
    "times": "{{ strftime_now('%f|%z|%Z|%%f|%j %e') }}",
    "numbers that end": "{{ 1_0 }} {{ 00 }} {{ 0_0 }} {{ 1_0.5 }} {{ 1e1_0 }} {{ 00.5 }} {{ 1if true else 2 }}",
    "a filter that is missing but not reached": "{% if false %}{{ x | no_such_filter }}{% endif %}ok",
    "a whole chat": "{{ bos_token }}{% for m in messages %}{% if m.role == 'tool' %}{% continue %}{% endif %}<|{{ m['role'] }}|>\n{{ m.content if m.content is string else '' }}{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
}

REFUSED = {
    "raise_exception": "{{ raise_exception('No ' + messages[0].role) }}",
    "an attribute of something undefined": "{{ x.y }}",
    "an element of something undefined": "{{ messages[0].nothing['y'] }}",
    "strings and numbers": "{{ 'a' + 1 }}",
    "strings and none": "{{ 'a' + none }}",
    "a call of something undefined": "{{ x() }}",
    "a loop over a number": "{% for i in 5 %}{% endfor %}",
    "a loop over none": "{% for i in none %}{% endfor %}",
    "a division by zero": "{{ 1 / 0 }}",
    "a list that is changed": "{% set l = [1] %}{% set x = l.append(2) %}",
    "a dict that is changed": "{% set x = messages[0].pop('role') %}",
    "undefined as JSON": "{{ x | tojson }}",
    "too many arguments": "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
    "an unknown argument": "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}",
    "a range that is too long": "{{ range(1000000) }}",
    "a namespace's private name": "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "values that do not fit names": "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "a filter that is missing": "{{ x | no_such_filter }}",
    "a test that is missing": "{{ x is no_such_test }}",
    "a tag without end": "a {{ 1 ",
    "a block without end": "{% if true %}a",
    "an end without a block": "a{% endif %}",
    "a string without end": "{{ 'a }}",
    "two values": "{{ 1 2 }}",
    "brackets that do not fit": "{{ (1] }}",
    "a number that begins with 0": "{{ 0777 }}",
    "two underscores in a number": "{{ 1__0 }}",
    "a base without digits": "{{ 0x }}",
    "a digit that the base does not have": "{{ 0b12 }}",
    "an underscore behind digits": "{{ 0x1_ }}",
    "an underscore behind a number": "{{ 1_ }}",
    "a name of quotes": "{{ \u2019a\u2019 }}",
    "a name with a sign": "{% set a\u20ac = 1 %}",
    "a list and a range": "{{ [1] + range(2) }}",
    "a view as JSON": "{{ {'a': 1}.keys() | tojson }}",
    "a range as JSON": "{{ range(2) | tojson }}",
    "break outside of a loop": "{% break %}",
}

# Templates as models have them: one adds texts up, one knows of parts, one writes calls as JSON, one adds up their text.
PLAIN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
ADDING = "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '</s>' }}{% endfor %}"
PARTED = ("{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
          "{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endif %}</s>{% endfor %}")
CALLING = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}<{{ m.role }}>"
           "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ c.function.name }} {{ c.function.arguments | tojson }}"
           "{{ c.id is defined }}{% endfor %}</s>{% endfor %}")
QUOTING = ("{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
           "{{ c.function.name + ' ' + c.function.arguments }}{% endfor %}</s>{% endfor %}")
USER = {"role": "user", "content": "Hi"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "One, "}, {"type": "text", "text": "two.", "image": None}]}


def calling(arguments, **more):
    return {"role": "assistant", "tool_calls": [
        {"type": "function", "function": {"name": "look", "arguments": arguments}, **more}]}


def saying(text):
    return {"role": "user", "content": text}


# What data sets write, and what transformers is given for it: what the author meant.
MEANT = {
    "parts are joined where a template wants texts": (PLAIN, {"messages": [PARTS]}, {"messages": [saying("One, two.")]}),
    "parts are added to texts": (ADDING, {"messages": [PARTS]}, {"messages": [saying("One, two.")]}),
    "parts stay parts where a template knows them": (PARTED, {"messages": [PARTS]}, {"messages": [PARTS]}),
    "no content is an empty text": (PLAIN, {"messages": [USER, saying(None)]}, {"messages": [USER, saying("")]}),
    "no content is added as an empty text": (ADDING, {"messages": [saying(None)]}, {"messages": [saying("")]}),
    "arguments that are stored as text are an object": (
        CALLING, {"messages": [calling('{"word": "\u00e9l\u00e8ve", "n": 2}')]},
        {"messages": [calling({"word": "\u00e9l\u00e8ve", "n": 2})]}),
    "blank arguments are an empty object": (CALLING, {"messages": [calling(" ")]}, {"messages": [calling({})]}),
    "arguments are text where a template adds them up": (
        QUOTING, {"messages": [dict(calling({"n": [1, None]}), content=None)]},
        {"messages": [dict(calling('{"n": [1, null]}'), content="")]}),
    "arguments stay the text that they are": (
        QUOTING, {"messages": [dict(calling('{"n":1}'), content="x")]}, {"messages": [dict(calling('{"n":1}'), content="x")]}),
    "tools that are stored as text are a list": (
        CALLING, {"messages": [USER], "tools": '[{"type": "function", "strict": null, "function": {"name": "f"}}]'},
        {"messages": [USER], "tools": [{"type": "function", "function": {"name": "f"}}]}),
    "members that are null are absent": (
        CALLING, {"messages": [dict(USER, tool_calls=None, name=None), dict(calling({}, id=None), content="")], "tools": None},
        {"messages": [USER, dict(calling({}), content="")]}),
    "null within arguments stays": (CALLING, {"messages": [calling({"a": None})]}, {"messages": [calling({"a": None})]}),
    "thinking is the first member, where it stands already": (
        "{{ messages[0] | tojson }}", {"messages": [{"role": "assistant", "content": "a", "thinking": "b", "name": "c"}]},
        {"messages": [{"role": "assistant", "content": "a", "thinking": "b", "name": "c"}]}),
    "thinking is the first member, where it is new": (
        "{{ messages[0] | tojson }}", {"messages": [{"role": "assistant", "reasoning": "b", "content": "a"}]},
        {"messages": [{"role": "assistant", "reasoning": "b", "content": "a"}]}),
    "an id beyond 64 bits stays what it is": (
        "{{ messages[0].id }} {{ messages[0] | tojson }}", {"messages": [dict(USER, id=123456789012345678901)]},
        {"messages": [dict(USER, id=123456789012345678901)]}),
}

NOW_S = 1767225600


class Clock(__import__("datetime").datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW_S)


def render(source):
    transformers.utils.chat_template_utils.datetime = Clock
    texts, spans = render_jinja_template([CHAT["messages"]], tools=CHAT["tools"], chat_template=source,
                                         add_generation_prompt=True, bos_token="<s>", eos_token="</s>",
                                         return_assistant_tokens_mask="generation" in source)
    return texts[0], spans


def render_meant(source, chat):
    texts, _ = render_jinja_template([chat["messages"]], tools=chat.get("tools"), chat_template=source)
    return texts[0]


def main(path):
    cases = []
    for name, source in FEATURES.items():
        text, spans = render(source)
        case = {"name": name, "template": source, "text": text}
        if spans and spans[0]:
            case["generated"] = [text[begin:end] for begin, end in spans[0]]
        cases.append(case)
    for name, source in REFUSED.items():
        try:
            text, _ = render(source)
        except Exception:  # whatever Jinja raises
            cases.append({"name": name, "template": source})
        else:
            sys.exit(f"{name}: was rendered: {text}")
    meant = [{"name": name, "template": source, "written": json.dumps(written, ensure_ascii=False), "text": render_meant(source, chat)}
             for name, (source, written, chat) in MEANT.items()]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"jinja2": jinja2.__version__, "transformers": transformers.__version__, "now_s": NOW_S, "chat": CHAT,
                   "cases": cases, "meant": meant}, file, ensure_ascii=False, indent=1)
        file.write("\n")
    print(f"{len(cases)} cases in {path}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.environ["TZ"] = "UTC"
    time.tzset()
    main(sys.argv[1])
