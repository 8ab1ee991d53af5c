// The templates that this program brings along, for training data without one: the well-known
// formats, in words of our own. They take roles as they come in and add no default system prompt.
#pragma once

#include <array>
#include <string_view>

namespace strata::chat {

struct BuiltInTemplate {
  std::string_view name;
  std::string_view source;
};

inline constexpr std::string_view kChatml = R"jinja(
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %})jinja";

inline constexpr std::string_view kLlama2 = R"jinja(
{%- set state = namespace(system=none) %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- if not loop.first %}
            {{- raise_exception('a system message must come first') }}
        {%- endif %}
        {%- set state.system = message.content %}
    {%- elif message.role == 'user' %}
        {{- bos_token + '[INST] ' }}
        {%- if state.system is not none %}
            {{- '<<SYS>>\n' + state.system + '\n<</SYS>>\n\n' }}
            {%- set state.system = none %}
        {%- endif %}
        {{- message.content | trim + ' [/INST]' }}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + message.content | trim + ' ' + eos_token }}
    {%- else %}
        {{- raise_exception('llama2 has the roles system, user and assistant, not ' + message.role) }}
    {%- endif %}
{%- endfor %})jinja";

inline constexpr std::string_view kLlama3 = R"jinja(
{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' }}
    {{- message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %})jinja";

inline constexpr std::string_view kMistral = R"jinja(
{{- bos_token }}
{%- set state = namespace(system=none) %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- if not loop.first %}
            {{- raise_exception('a system message must come first') }}
        {%- endif %}
        {%- set state.system = message.content %}
    {%- elif message.role == 'user' %}
        {{- '[INST] ' }}
        {%- if state.system is not none %}
            {{- state.system + '\n\n' }}
            {%- set state.system = none %}
        {%- endif %}
        {{- message.content + '[/INST]' }}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + message.content | trim + eos_token }}
    {%- else %}
        {{- raise_exception('mistral has the roles system, user and assistant, not ' + message.role) }}
    {%- endif %}
{%- endfor %})jinja";

inline constexpr std::array<BuiltInTemplate, 4> kBuiltInTemplates{
    {{"chatml", kChatml}, {"llama2", kLlama2}, {"llama3", kLlama3}, {"mistral", kMistral}}};

}  // namespace strata::chat
