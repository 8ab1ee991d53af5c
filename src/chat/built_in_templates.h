// The templates that this program brings along, for training data without one: the well-known
// formats, in words of our own. They take roles as they come in and add no default system prompt.
// What they have no place for, tools and calls of them, they refuse instead of leaving it out.
#pragma once

#include <array>
#include <string_view>

namespace strata::chat {

struct BuiltInTemplate {
  std::string_view name;
  std::string_view source;
};

inline constexpr std::string_view kChatml = R"jinja(
{%- if tools %}
    {{- raise_exception('chatml has no place for tools; take the template of a model that calls tools') }}
{%- endif %}
{%- for message in messages %}
    {%- if message.tool_calls or message.function_call %}
        {{- raise_exception('chatml has no place for tool calls; take the template of a model that calls tools') }}
    {%- endif %}
    {%- set content = '' if message.content is none else message.content %}
    {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %})jinja";

inline constexpr std::string_view kLlama2 = R"jinja(
{%- if tools %}
    {{- raise_exception('llama2 has no place for tools; take the template of a model that calls tools') }}
{%- endif %}
{%- set state = namespace(system=none) %}
{%- for message in messages %}
    {%- if message.tool_calls or message.function_call %}
        {{- raise_exception('llama2 has no place for tool calls; take the template of a model that calls tools') }}
    {%- endif %}
    {%- set content = '' if message.content is none else message.content %}
    {%- if message.role == 'system' %}
        {%- if not loop.first %}
            {{- raise_exception('a system message must come first') }}
        {%- endif %}
        {%- set state.system = content %}
    {%- elif message.role == 'user' %}
        {{- bos_token + '[INST] ' }}
        {%- if state.system is not none %}
            {{- '<<SYS>>\n' + state.system + '\n<</SYS>>\n\n' }}
            {%- set state.system = none %}
        {%- endif %}
        {{- content | trim + ' [/INST]' }}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + content | trim + ' ' + eos_token }}
    {%- else %}
        {{- raise_exception('llama2 has the roles system, user and assistant, not ' + message.role) }}
    {%- endif %}
{%- endfor %})jinja";

inline constexpr std::string_view kLlama3 = R"jinja(
{%- if tools %}
    {{- raise_exception('llama3 has no place for tools; take the template of a model that calls tools') }}
{%- endif %}
{{- bos_token }}
{%- for message in messages %}
    {%- if message.tool_calls or message.function_call %}
        {{- raise_exception('llama3 has no place for tool calls; take the template of a model that calls tools') }}
    {%- endif %}
    {%- set content = '' if message.content is none else message.content %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' }}
    {{- content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %})jinja";

inline constexpr std::string_view kMistral = R"jinja(
{%- if tools %}
    {{- raise_exception('mistral has no place for tools; take the template of a model that calls tools') }}
{%- endif %}
{{- bos_token }}
{%- set state = namespace(system=none) %}
{%- for message in messages %}
    {%- if message.tool_calls or message.function_call %}
        {{- raise_exception('mistral has no place for tool calls; take the template of a model that calls tools') }}
    {%- endif %}
    {%- set content = '' if message.content is none else message.content %}
    {%- if message.role == 'system' %}
        {%- if not loop.first %}
            {{- raise_exception('a system message must come first') }}
        {%- endif %}
        {%- set state.system = content %}
    {%- elif message.role == 'user' %}
        {{- '[INST] ' }}
        {%- if state.system is not none %}
            {{- state.system + '\n\n' }}
            {%- set state.system = none %}
        {%- endif %}
        {{- content + '[/INST]' }}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + content | trim + eos_token }}
    {%- else %}
        {{- raise_exception('mistral has the roles system, user and assistant, not ' + message.role) }}
    {%- endif %}
{%- endfor %})jinja";

inline constexpr std::array<BuiltInTemplate, 4> kBuiltInTemplates{
    {{"chatml", kChatml}, {"llama2", kLlama2}, {"llama3", kLlama3}, {"mistral", kMistral}}};

}  // namespace strata::chat
