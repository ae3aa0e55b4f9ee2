#!/usr/bin/env python3
"""Writes tests/golden/chat_templates.json: what Jinja makes of chat templates.

    tools/golden/chat_templates.py SDIST MODEL.gguf > tests/golden/chat_templates.json

SDIST is the source package llama_cpp_python-0.3.36.tar.gz, whose vendored llama.cpp carries the
templates of well-known models; MODEL.gguf is the small model. Needs jinja2 and gguf. Templates are
rendered as transformers renders them: a sandbox with trim_blocks, lstrip_blocks, loop controls and
raise_exception, no date (so that a template that asks for one takes its own default).

Each case holds the template, its BOS and EOS, whether Meadow is to know it, and for each conversation
the rendered text, without a BOS at the very beginning, or null where the template refuses it.
"""
import json
import re
import sys
import tarfile

import gguf
from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

TURNS = [("user", "Hello"), ("assistant", "Hi there"), ("user", "  Who are you?\n"),
         ("assistant", "\n I am an assistant \u00a0"), ("user", "Thanks — 再见")]
CONVERSATIONS = [
    TURNS[:1],
    TURNS,
    TURNS[:2],
    TURNS[:4],
    [("system", " Be brief.\n")] + TURNS[:1],
    [("system", "You are a pirate.")] + TURNS,
    [("system", "Be kind.")] + TURNS[:2],
    [("user", "a"), ("user", "b")],
    [("assistant", "first")],
    [("user", "2+2?"), ("assistant", "<think>\neasy\n\n</think>\n\n4"), ("user", "sure?")],
    [("user", "2+2?"), ("assistant", "<think>\neasy\n\n</think>\n\n4")],
    [("user", ""), ("assistant", ""), ("user", "x")],
]

# In llama.cpp's folder models/templates; name: (bos, eos)
FILES = {
    "meta-llama-Llama-3.1-8B-Instruct": ("<|begin_of_text|>", "<|eot_id|>"),
    "meta-llama-Llama-3.2-3B-Instruct": ("<|begin_of_text|>", "<|eot_id|>"),
    "meta-llama-Llama-3.3-70B-Instruct": ("<|begin_of_text|>", "<|eot_id|>"),
    "Qwen-Qwen2.5-7B-Instruct": ("", "<|im_end|>"),
    "Qwen-Qwen3-0.6B": ("", "<|im_end|>"),
    "mistralai-Mistral-Nemo-Instruct-2407": ("<s>", "</s>"),
    "microsoft-Phi-3.5-mini-instruct": ("<s>", "<|endoftext|>"),
    "google-gemma-2-2b-it": ("<bos>", "<eos>"),
}
# In llama.cpp's tests/test-chat-template.cpp, by the beginning of the name
TESTS = {
    "teknium/OpenHermes": ("<s>", "<|im_end|>"),
    "mistralai/Mistral-7B-Instruct-v0.2 (NOTE": ("<s>", "</s>"),
    "mistralai/Mistral-7B-Instruct-v0.2 (mistralai 'v1'": ("<s>", "</s>"),
    "Mistral-Large-Instruct-2407": ("<s>", "</s>"),
    "mistralai/Mistral-Large-Instruct-2411": ("<s>", "</s>"),
    "CohereForAI/c4ai-command-r-plus": ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"),
    "Llama-3": ("<|begin_of_text|>", "<|eot_id|>"),
    "Phi-3-mini": ("<s>", "<|endoftext|>"),
    "Phi-3-small": ("<s>", "<|endoftext|>"),
    "Phi-3-medium": ("<s>", "<|endoftext|>"),
    "phi-4": ("<|endoftext|>", "<|im_end|>"),
    "ibm-granite/granite-3.0-8b-instruct": ("", "<|end_of_text|>"),
    "google/gemma-7b-it": ("<bos>", "<eos>"),
}
LLAMA_2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation "
    "roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}"
    "{% endif %}{% endfor %}")
ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n"
    "{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
    "{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n"
    "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")
MISTRAL_V0_1 = (
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 "
    "== 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...')"
    " }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}{% else %}"
    "{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}")
PHI_4_NEWER = (
    "{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>'"
    " + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'user') %}{{'<|im_start|>user"
    "<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'assistant') %}"
    "{{'<|im_start|>assistant<|im_sep|>' + message['content'] + '<|im_end|>'}}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}")


def raise_exception(message):
    raise TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[loopcontrols])
    env.globals["raise_exception"] = raise_exception
    env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    return env


def render(template, bos, eos, turns, generation):
    messages = [{"role": role, "content": content} for role, content in turns]
    try:
        text = environment().from_string(template).render(
            messages=messages, bos_token=bos, eos_token=eos, add_generation_prompt=generation)
    except TemplateError:
        return None
    has_bos = "bos_token" in template and bos and text.startswith(bos)
    return text[len(bos):] if has_bos else text


def test_templates(source):
    """The templates in llama.cpp's own test, by name."""
    out = {}
    pattern = r'/\* \.name= \*/ "([^"]*)",\s*/\* \.template_str= \*/ "((?:[^"\\]|\\.)*)"'
    for name, literal in re.findall(pattern, source):
        out[name] = json.loads('"' + literal.replace("\\'", "'") + '"')
    return out


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    cases = []

    def add(name, template, bos, eos):
        cases.append({"name": name, "template": template, "bos": bos, "eos": eos, "rendered": [
            [render(template, bos, eos, turns, generation) for generation in (False, True)]
            for turns in CONVERSATIONS]})

    reader = gguf.GGUFReader(sys.argv[2])
    add("SmolLM2-135M-Instruct", reader.fields["tokenizer.chat_template"].contents(),
        "<|im_start|>", "<|im_end|>")
    with tarfile.open(sys.argv[1]) as sdist:
        root = "llama_cpp_python-0.3.36/vendor/llama.cpp/"

        def text_of(path):
            return sdist.extractfile(root + path).read().decode()

        for name, (bos, eos) in FILES.items():
            add(name, text_of(f"models/templates/{name}.jinja"), bos, eos)
        known = test_templates(text_of("tests/test-chat-template.cpp"))
        for start, (bos, eos) in TESTS.items():
            name = next(n for n in known if n.startswith(start))
            add(name, known[name], bos, eos)
    add("Llama-2-chat", LLAMA_2, "<s>", "</s>")
    add("zephyr-7b-beta", ZEPHYR, "<s>", "</s>")
    add("Mistral-7B-Instruct-v0.1", MISTRAL_V0_1, "<s>", "</s>")
    add("phi-4, newer", PHI_4_NEWER, "<|endoftext|>", "<|im_end|>")
    json.dump({"conversations": CONVERSATIONS, "cases": cases}, sys.stdout, ensure_ascii=False, indent=1)
    print()


main()
